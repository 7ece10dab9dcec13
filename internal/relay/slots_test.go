package relay

import (
	"testing"
	"time"
)

func manySlots(limit int) *slots {
	return &slots{limit: limit, share: limit / 2, many: true, least: leastOf(limit), movedAt: time.Now().Add(time.Hour), changed: func(int) {}}
}

// Many busy destinations take turns with many places instead of a few each at the same time.
func TestBusyDestinationsTakeTurns(t *testing.T) {
	t.Parallel()
	s := manySlots(1000)
	var served, waiting []*mailbox
	held := map[*mailbox]int{}
	for range 50 {
		box := newMailbox()
		if n := s.take(250, 0, box); n > 0 {
			if n < 125 {
				t.Errorf("a destination gets %d places while others come free", n)
			}
			held[box] = n
			served = append(served, box)
		} else {
			waiting = append(waiting, box)
		}
	}
	if len(served) < 4 || len(waiting) < 40 {
		t.Fatalf("%d destinations are served at once, %d wait", len(served), len(waiting))
	}
	for _, box := range served {
		s.movedAt = time.Now().Add(time.Hour)
		s.release(held[box])
	}
	woken := 0
	for i, box := range waiting {
		select {
		case <-box.signal:
			woken++
			if i >= woken {
				t.Errorf("destination %d was woken before its turn", i)
			}
		default:
		}
	}
	if woken < 4 || woken > 20 {
		t.Errorf("%d of %d were woken for 1000 places", woken, len(waiting))
	}
}

// Where mute destinations keep the places, nobody waits for what does not come free.
func TestMuteDestinationsAreNotWaitedFor(t *testing.T) {
	t.Parallel()
	s := manySlots(1000)
	s.add(900)
	if n := s.take(250, 0, newMailbox()); n != 0 {
		t.Fatalf("%d places at once", n)
	}
	for i, want := range []int{50, 25, 12, 6, 3, 2, 1} {
		s.movedAt = time.Now().Add(-standing)
		if n := s.take(250, 0, newMailbox()); n != want {
			t.Errorf("destination %d gets %d places after a while, want %d", i, n, want)
		}
	}
	// Before long the little that comes free goes out at once.
	s.movedAt = time.Now().Add(time.Hour)
	s.release(10)
	if n := s.take(250, 0, newMailbox()); n == 0 {
		t.Error("nothing of what came free is given")
	}
	s.release(s.used)
	for range 20 {
		s.movedAt = time.Now().Add(time.Hour)
		s.release(s.take(250, 0, newMailbox()))
	}
	if s.least != leastOf(1000) {
		t.Errorf("a pump is given %d places after all came free, want to wait for %d", s.least, leastOf(1000))
	}
}
