package consume_test

import (
	"context"
	"encoding/json"
	"errors"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/backend-skeleton/relay/internal/consume"
	"github.com/backend-skeleton/relay/messaging"
	"github.com/backend-skeleton/relay/messaging/messagingtest"
	"github.com/backend-skeleton/relay/messaging/transport"
)

func TestSuccessIsSettledAndNothingElseIs(t *testing.T) {
	t.Parallel()
	for _, topic := range []bool{true, false} {
		w := newWorld(t, topic, nil)
		w.put("a", 0, 50)
		w.start(w.handle(nil))
		w.settled()
		if n := len(w.made()); n != 50 {
			t.Errorf("%d calls, want 50", n)
		}
		w.eventually("50 successes", func() bool { return w.outcomes("SUCCESS") == 50 })
		if n := len(w.Stored("dlq")); n != 0 {
			t.Errorf("%d dead letters", n)
		}
	}
}

// Order: of one key never two at once and never one before an earlier one, however many keys run beside each other.
func TestOrderingUnits(t *testing.T) {
	t.Parallel()
	for ordering, perUnit := range map[messaging.Ordering]int{messaging.OrderingKey: 8, messaging.OrderingPartition: 1, messaging.OrderingDestination: 8} {
		t.Run(ordering.String(), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, true, func(c *consume.Config) { c.Ordering, c.Concurrency, c.PerUnit = ordering, 8, perUnit })
			keys := []string{"a", "b", "c", "d"}
			for n := range 40 {
				for _, key := range keys {
					w.putOne(key, n, nil)
				}
			}
			var running, most atomic.Int32
			perKey := map[string]*atomic.Int32{"a": {}, "b": {}, "c": {}, "d": {}}
			w.start(w.handle(func(_ context.Context, c call) messaging.Result {
				if perKey[c.key].Add(1) != 1 {
					t.Error("two of one key at once")
				}
				most.Store(max(most.Load(), running.Add(1)))
				runtime.Gosched()
				running.Add(-1)
				perKey[c.key].Add(-1)
				if c.n == 7 && c.attempt == 1 {
					return transient()
				}
				return messaging.Success()
			}))
			w.settled()
			next := map[string]int{}
			for _, c := range w.made() {
				if c.n == 7 && c.attempt == 1 {
					if next[c.key] != 7 {
						t.Errorf("key %s: 7 comes behind %d", c.key, next[c.key])
					}
					continue
				}
				if c.n != next[c.key] {
					t.Fatalf("key %s: %d is handled where %d is next", c.key, c.n, next[c.key])
				}
				next[c.key]++
			}
			if ordering != messaging.OrderingKey && most.Load() != 1 {
				t.Errorf("%d at once, want 1", most.Load())
			}
		})
	}
}

func TestKeysRunBesideEachOther(t *testing.T) {
	t.Parallel()
	w := newWorld(t, true, func(c *consume.Config) { c.Ordering, c.Concurrency, c.PerUnit = messaging.OrderingKey, 4, 4 })
	var together sync.WaitGroup
	together.Add(4) // no handler ends before all four run
	w.start(w.handle(func(context.Context, call) messaging.Result {
		together.Done()
		together.Wait()
		return messaging.Success()
	}))
	for _, key := range []string{"a", "b", "c", "d"} {
		w.put(key, 0, 1)
	}
	w.settled()
}

// C18: a panic, of whatever kind, is one failed attempt of its delivery; the consumer goes on as before.
func TestC18_APanicIsOneFailedAttempt(t *testing.T) {
	t.Parallel()
	w := newWorld(t, false, func(c *consume.Config) { c.Concurrency = 8 })
	kinds := []func(){
		func() { panic("payload 4711") },
		func() { panic(errTest) },
		func() { panic(struct{ A int }{1}) },
		func() { _ = make([]int, len(w.c.Name))[len(w.c.Name)] }, // out of range
		func() { panic(nil) },                                    //nolint:govet // on purpose
		runtime.Goexit,
	}
	w.put("", 0, 120)
	w.start(w.handle(func(_ context.Context, c call) messaging.Result {
		if c.n%10 == 0 {
			kinds[c.n/10%len(kinds)]()
		}
		return messaging.Success()
	}))
	w.settled()
	dead := w.Stored("dlq")
	if len(dead) != 12 {
		t.Fatalf("%d dead letters, want 12", len(dead))
	}
	for _, m := range dead {
		if code := header(m, transport.HeaderDLQCode); code != messaging.CodeHandlerPanicked {
			t.Errorf("code %s", code)
		}
		if n := header(m, transport.HeaderDLQAttempts); n != "3" {
			t.Errorf("%s attempts, want 3", n)
		}
		for _, h := range m.Header {
			if strings.Contains(string(h.Value), "4711") || strings.Contains(string(h.Value), "goroutine") {
				t.Errorf("header %s tells what the handler panicked with", h.Name)
			}
		}
	}
	if n := len(w.made()); n != 108+12*3 {
		t.Errorf("%d calls, want %d", n, 108+12*3)
	}
	w.eventually("nothing runs", func() bool { s := w.k.Status(); return s.Running == 0 && s.Waiting == 0 })
}

// After the handler's time a success is one, and anything else a failed attempt that may have had an effect.
func TestHandlerTimeout(t *testing.T) {
	t.Parallel()
	w := newWorld(t, true, func(c *consume.Config) {
		c.HandlerTimeout, c.ReviewDoubtful, c.Policy.MaxAttempts = 20*time.Millisecond, true, 2
	})
	w.put("", 0, 2)
	w.start(w.handle(func(ctx context.Context, c call) messaging.Result {
		<-ctx.Done()
		if cause := context.Cause(ctx); !errors.Is(cause, messaging.ErrHandlerTimeout) {
			t.Errorf("the context ended by %v", cause)
		}
		if c.n == 0 {
			return messaging.Success()
		}
		return permanent()
	}))
	w.settled()
	parked := w.Stored("parked-review")
	if len(parked) != 1 || header(parked[0], transport.HeaderDLQCode) != messaging.CodeHandlerTimeout || header(parked[0], transport.HeaderDLQAttempts) != "2" {
		t.Errorf("parked for review: %v", parked)
	}
	if w.outcomes("SUCCESS") != 1 {
		t.Error("a late success is none")
	}
}

// A handler that does not end keeps its ordering unit, is reported, and leaves its message unsettled.
func TestAStuckHandlerIsReportedAndStaysUnsettled(t *testing.T) {
	t.Parallel()
	w := newWorld(t, true, func(c *consume.Config) { c.HandlerTimeout, c.Drain = time.Millisecond, time.Millisecond })
	hang := make(chan struct{})
	t.Cleanup(func() { close(hang) })
	w.put("", 0, 1)
	w.start(w.handle(func(context.Context, call) messaging.Result {
		<-hang
		return messaging.Success()
	}))
	w.eventually("it is reported", func() bool { s := w.k.Status(); return s.Stuck == 1 && !s.Ready() })
	if n := len(w.made()); n != 1 {
		t.Errorf("%d calls of a message whose handler still runs", n)
	}
	if err := stop(t, w.k, 50*time.Millisecond); err == nil || !strings.Contains(err.Error(), "1 deliveries stay unsettled") {
		t.Errorf("the stop says %v", err)
	}
	if n := len(w.Left(w.place, name)); n != 1 {
		t.Errorf("%d messages left, want 1", n)
	}
}

// AT_MOST_ONCE: settled before the handler, and never handled twice.
func TestAtMostOnceSettlesFirst(t *testing.T) {
	t.Parallel()
	w := newWorld(t, true, func(c *consume.Config) {
		c.Delivery, c.Policy = messaging.AtMostOnce, messaging.RetryPolicy{Mode: messaging.ModeNone}
		c.DeadLetters, c.Parking = nil, nil
	})
	w.put("", 0, 10)
	w.start(w.handle(func(_ context.Context, c call) messaging.Result {
		for _, m := range w.Left(w.place, name) {
			if m.ID == c.id {
				t.Error("handled before it is settled")
			}
		}
		if c.n%2 == 0 {
			return transient()
		}
		return messaging.Success()
	}))
	w.settled()
	w.eventually("five are discarded", func() bool { return w.outcomes("REJECTED") == 5 && w.outcomes("SUCCESS") == 5 })
	if n := len(w.made()); n != 10 {
		t.Errorf("%d calls, want 10", n)
	}
}

func TestAtMostOnceWithoutProofOfSettlementIsNotHandled(t *testing.T) {
	t.Parallel()
	w := newWorld(t, true, func(c *consume.Config) {
		c.Delivery, c.Policy = messaging.AtMostOnce, messaging.RetryPolicy{Mode: messaging.ModeNone}
	})
	w.Inject(messagingtest.Fault{Kind: messagingtest.LoseSettlement, Count: 1})
	w.put("", 0, 1)
	w.start(w.handle(nil))
	w.eventually("it ends", func() bool { return w.outcomes("UNSETTLED") == 1 })
	if n := len(w.made()); n != 0 {
		t.Errorf("%d calls of a message that may come again", n)
	}
}

// Pauses are a set of reasons: lifting one leaves the others.
func TestPausesAreASetOfReasons(t *testing.T) {
	t.Parallel()
	w := newWorld(t, true, nil)
	w.start(w.handle(nil))
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	check(w.k.Pause("stocktaking"))
	check(w.k.Pause("stocktaking"))
	check(w.k.Pause("upgrade"))
	w.eventually("both are seen", func() bool { return len(w.k.Status().Paused) == 2 })
	w.put("", 0, 5)
	check(w.k.Resume("stocktaking"))
	w.eventually("one is lifted", func() bool { return len(w.k.Status().Paused) == 1 })
	if n := len(w.made()); n != 0 {
		t.Errorf("%d calls of a paused consumer", n)
	}
	check(w.k.Resume("upgrade"))
	w.settled()
	if err := w.k.Pause(""); err == nil {
		t.Error("a pause without reason is taken")
	}
}

// Back-pressure: of a backlog no more waits in the process than the bounds allow.
func TestC21_TheBacklogStaysWithTheBroker(t *testing.T) {
	t.Parallel()
	for what, change := range map[string]func(*consume.Config){
		"deliveries": func(c *consume.Config) { c.Prefetch = 10 },
		"bytes":      func(c *consume.Config) { c.MaxBufferedBytes = 60 }, // a payload has 7 to 9
	} {
		for _, topic := range []bool{true, false} {
			w := newWorld(t, topic, func(c *consume.Config) {
				c.Concurrency = 2
				change(c)
			})
			w.put("", 0, 500)
			release := make(chan struct{})
			w.start(w.handle(func(context.Context, call) messaging.Result {
				<-release
				return messaging.Success()
			}))
			w.eventually("both handlers run", func() bool { return w.k.Status().Running == 2 })
			most := 0
			for range 200 {
				most = max(most, w.k.Status().Waiting)
				release <- struct{}{}
			}
			if most == 0 || most > 40 {
				t.Errorf("%s, topic %t: up to %d deliveries wait", what, topic, most)
			}
			close(release)
			w.settled()
		}
	}
}

// A unit that is asked back: what runs ends and is settled, what waits comes again elsewhere, nobody handles anything twice.
func TestRevokedUnits(t *testing.T) {
	t.Parallel()
	w := newWorld(t, true, func(c *consume.Config) { c.Ordering = messaging.OrderingPartition })
	w.Inject(messagingtest.Fault{Kind: messagingtest.Revoke, After: 5})
	w.put("", 0, 40)
	w.start(w.handle(nil))
	w.settled()
	var ns []int
	for _, c := range w.made() {
		ns = append(ns, c.n)
	}
	if len(ns) != 40 || !slices.IsSorted(ns) {
		t.Errorf("handled: %v", ns)
	}
}

// A unit that is lost: its running handler's context ends, and its late success settles nothing.
func TestLostUnits(t *testing.T) {
	t.Parallel()
	w := newWorld(t, true, func(c *consume.Config) { c.Ordering = messaging.OrderingPartition })
	w.put("", 0, 3)
	var causes atomic.Int32
	w.start(w.handle(func(ctx context.Context, _ call) messaging.Result {
		if len(w.made()) == 1 {
			w.Inject(messagingtest.Fault{Kind: messagingtest.Lose})
			<-ctx.Done()
			if errors.Is(context.Cause(ctx), messaging.ErrUnitLost) {
				causes.Add(1)
			}
		}
		return messaging.Success()
	}))
	w.settled()
	if causes.Load() != 1 {
		t.Error("the handler was not told that its unit is lost")
	}
	w.eventually("one is left unsettled", func() bool { return w.outcomes("UNSETTLED") >= 1 })
}

// C19: what is unfinished at a stop stays unsettled: no attempt, no retry, no dead letter.
func TestC19_AStopIsNoFailureOfAMessage(t *testing.T) {
	t.Parallel()
	for _, topic := range []bool{true, false} {
		w := newWorld(t, topic, func(c *consume.Config) { c.Policy = messaging.RetryPolicy{Mode: messaging.ModeNone} })
		w.put("", 0, 20)
		w.start(w.handle(func(ctx context.Context, c call) messaging.Result {
			if c.n == 0 {
				return messaging.Success()
			}
			<-ctx.Done()
			return messaging.FromError(func(context.Context, messaging.Delivery[order]) error { return ctx.Err() }).Handle(ctx, messaging.Delivery[order]{})
		}))
		w.eventually("four run", func() bool { return w.k.Status().Running == 4 })
		if err := stop(t, w.k, 30*time.Millisecond); err == nil {
			t.Error("the stop does not tell what it left")
		}
		if n := len(w.Stored("dlq")); n != 0 {
			t.Errorf("%d dead letters by a stop", n)
		}
		if n := len(w.Left(w.place, name)); n != 19 {
			t.Errorf("%d messages left, want 19", n)
		}
	}
}

// What a running handler gives during the drain counts, and nothing new begins.
func TestTheDrainSettlesWhatRuns(t *testing.T) {
	t.Parallel()
	w := newWorld(t, false, func(c *consume.Config) { c.Concurrency = 2 })
	w.put("", 0, 20)
	release := make(chan struct{})
	w.start(w.handle(func(context.Context, call) messaging.Result {
		<-release
		return messaging.Success()
	}))
	w.eventually("two run", func() bool { return w.k.Status().Running == 2 })
	stopped := make(chan error, 1)
	go func() { stopped <- stop(t, w.k, 10*time.Second) }()
	w.eventually("it drains", func() bool { return w.k.Status().Draining })
	close(release)
	if err := <-stopped; err != nil {
		t.Error(err)
	}
	if n := len(w.Left(w.place, name)); n != 18 {
		t.Errorf("%d messages left, want 18", n)
	}
	if n := len(w.made()); n != 2 {
		t.Errorf("%d calls, want 2", n)
	}
}

// What a payload is read into serves again: nothing of a message is seen by the next handler, and what a handler keeps stays
// as it was.
func TestAPayloadIsReadAlone(t *testing.T) {
	t.Parallel()
	type open struct {
		All  map[string]int `json:"all"`
		List []int          `json:"list"`
		Note *string        `json:"note"`
	}
	w := newWorld(t, false, func(c *consume.Config) { c.Concurrency = 1 })
	bodies := []string{`{"all":{"a":1},"list":[1,2,3],"note":"x"}`, `{"all":{"b":2},"list":[4]}`, `{"list":"none"}`, `{}`}
	for _, body := range bodies {
		w.putOne("", 0, func(m *transport.Message) { m.Value = []byte(body) })
	}
	var mu sync.Mutex
	var kept []messaging.Delivery[open]
	w.start(consume.On(messaging.Destination[open]{Name: created.Name, Type: created.Type, Version: 1},
		messaging.HandlerFunc[open](func(_ context.Context, d messaging.Delivery[open]) messaging.Result {
			mu.Lock()
			defer mu.Unlock()
			kept = append(kept, d)
			return messaging.Success()
		})))
	w.settled()
	mu.Lock()
	defer mu.Unlock()
	var got []string
	for _, d := range kept {
		text, err := json.Marshal(d.Payload)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, string(text))
	}
	want := []string{`{"all":{"a":1},"list":[1,2,3],"note":"x"}`, `{"all":{"b":2},"list":[4],"note":null}`, `{"all":null,"list":null,"note":null}`}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if len(w.Stored("parked-schema")) != 1 {
		t.Error("what could not be read is not parked")
	}
}
