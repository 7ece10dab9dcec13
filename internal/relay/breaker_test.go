package relay

import (
	"testing"
	"time"
)

func openBreaker(t *testing.T) *breaker {
	t.Helper()
	b := newBreaker(BreakerConfig{Failures: 5, OpenFor: time.Minute, OpenMax: time.Hour, SlowStart: 10}, func(BreakerState, string) {}, func(int) {})
	b.open("BROKER_UNREACHABLE", 0)
	if state, _, _ := b.snapshot(); state != BreakerOpen {
		t.Fatalf("the breaker is %v", state)
	}
	return b
}

// A breaker of a broker is shared by pumps. What one of them gives back is its own reservation, never the other's.
func TestAProbeIsGivenBackByItsHolderAlone(t *testing.T) {
	t.Parallel()
	b := openBreaker(t)
	first, ok := b.reserve()
	if !ok {
		t.Fatal("the probe is refused")
	}
	b.release(0)
	b.release(first + 1)
	if _, ok := b.reserve(); ok {
		t.Error("a second probe goes out while the first is without answer")
	}
	b.open("CONNECTION_LOST", 0) // an older row
	if _, ok := b.reserve(); ok {
		t.Error("an older row's failure let a second probe out")
	}
	b.release(first)
	second, ok := b.reserve()
	if !ok {
		t.Error("the probe was given back and is refused")
	}
	b.release(first) // late
	if _, ok := b.reserve(); ok {
		t.Error("a reservation that was over freed the one in force")
	}
	b.answered(second)
	if state, _, _ := b.snapshot(); state != BreakerHalfOpen {
		t.Errorf("after an answer the breaker is %v", state)
	}
}

func TestAfterARecoveryTheWindowGrowsStepByStep(t *testing.T) {
	t.Parallel()
	b := openBreaker(t)
	b.success()
	var windows []int
	for b.room(5000, 0) < 5000 {
		w := b.room(5000, 0)
		windows = append(windows, w)
		if got := b.room(5000, w); got != 0 {
			t.Fatalf("with %d rows open there is room for %d more", w, got)
		}
		for range w {
			b.success()
		}
		if len(windows) > 20 {
			t.Fatal("the slow start never ends")
		}
	}
	if b.slow() != 0 {
		t.Errorf("after the slow start %d rows may be open", b.slow())
	}
	if want := []int{10, 20, 40, 80, 160, 320, 640}; len(windows) != len(want) || windows[0] != want[0] || windows[6] != want[6] {
		t.Errorf("windows %v, want %v", windows, want)
	}
	never := newBreaker(BreakerConfig{Failures: 5, SlowStart: 10}, func(BreakerState, string) {}, func(int) {})
	never.success()
	if got := never.room(5000, 4000); got != 5000 {
		t.Errorf("a breaker that never opened leaves room for %d rows, want 5000", got)
	}
}

// Whatever mute destinations hold, the next one finds places.
func TestMuteDestinationsLeavePlaces(t *testing.T) {
	t.Parallel()
	s := slots{limit: 1000, share: 500, many: true, changed: func(int) {}}
	for i := range 5 {
		held := 0
		for {
			n := s.take(100, held, newMailbox())
			if n == 0 {
				break
			}
			held += n
		}
		if least := 1000 >> (i + 2); held < least {
			t.Errorf("destination %d gets %d places, want at least %d", i+1, held, least)
		}
	}
	alone := slots{limit: 1000, share: 1000, changed: func(int) {}}
	if got := alone.take(1000, 0, newMailbox()); got != 1000 {
		t.Errorf("the only destination gets %d places, want all", got)
	}
}
