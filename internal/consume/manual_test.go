package consume_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/backend-skeleton/relay/internal/consume"
	"github.com/backend-skeleton/relay/messaging"
	"github.com/backend-skeleton/relay/messaging/messagingtest"
	"github.com/backend-skeleton/relay/messaging/transport"
)

func (w *world) manual(f func(ctx context.Context, c call, s messaging.SettlementController)) consume.Route {
	return consume.OnManual(created, messaging.ManualHandlerFunc[order](func(ctx context.Context, d messaging.Delivery[order], s messaging.SettlementController) {
		f(ctx, w.note(d), s)
	}))
}

func TestManualSettlement(t *testing.T) {
	t.Parallel()
	busy := *messaging.NewFailure(messaging.CategoryProcessingTransient, "BUSY", "busy")
	for what, row := range map[string]struct {
		first   func(s messaging.SettlementController) error
		status  messaging.SettlementStatus
		calls   int
		outcome string
	}{
		"ack":         {func(s messaging.SettlementController) error { return s.Ack() }, messaging.Settled, 1, "SUCCESS"},
		"dead letter": {func(s messaging.SettlementController) error { return s.DeadLetter(busy) }, messaging.Settled, 1, "DEAD_LETTERED"},
		"reject":      {func(s messaging.SettlementController) error { return s.Reject(busy) }, messaging.Settled, 1, "DEAD_LETTERED"},
		"retry":       {func(s messaging.SettlementController) error { return s.Retry(10*time.Millisecond, busy) }, messaging.SettlementUnknown, 2, "SUCCESS"},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, true, nil)
			w.put("", 0, 1)
			var kept messaging.SettlementController
			w.start(w.manual(func(ctx context.Context, c call, s messaging.SettlementController) {
				if c.attempt > 1 {
					if err := s.Ack(); err != nil {
						t.Error(err)
					}
					return
				}
				if _, err := s.Wait(ctx); !errors.Is(err, messaging.ErrSettlement) {
					t.Errorf("a wait before the call: %v", err)
				}
				if err := row.first(s); err != nil {
					t.Errorf("the first call: %v", err)
				}
				if err := s.Ack(); !errors.Is(err, messaging.ErrSettlementAlreadyCompleted) {
					t.Errorf("the second call: %v", err)
				}
				if r, err := s.Wait(ctx); r.Status != row.status || (err == nil) != (row.status == messaging.Settled) {
					t.Errorf("it is %v, %v", r.Status, err)
				}
				kept = s
			}))
			w.settled()
			w.eventually("it ends", func() bool { return w.outcomes(row.outcome) == 1 && w.k.Status().Running == 0 })
			if n := len(w.made()); n != row.calls {
				t.Errorf("%d calls, want %d", n, row.calls)
			}
			if err := kept.Ack(); !errors.Is(err, messaging.ErrSettlementAlreadyCompleted) {
				t.Errorf("a call after the end: %v", err)
			}
		})
	}
}

func TestAManualHandlerThatCallsNothingHasFailed(t *testing.T) {
	t.Parallel()
	w := newWorld(t, true, nil)
	w.put("", 0, 1)
	w.start(w.manual(func(context.Context, call, messaging.SettlementController) {}))
	w.eventually("it is dead-lettered", func() bool { return len(w.Stored("dlq")) == 1 })
	m := w.Stored("dlq")[0]
	if header(m, transport.HeaderDLQCode) != messaging.CodeNoVerdict || header(m, transport.HeaderDLQAttempts) != "3" {
		t.Errorf("code %s after %s attempts", header(m, transport.HeaderDLQCode), header(m, transport.HeaderDLQAttempts))
	}
}

// A settlement without answer is UNKNOWN, told apart from a failure, and never a success.
func TestASettlementWithoutAnswerIsUnknown(t *testing.T) {
	t.Parallel()
	w := newWorld(t, true, func(c *consume.Config) { c.SettleTimeout = 10 * time.Millisecond })
	w.Inject(messagingtest.Fault{Kind: messagingtest.LateSettlement, Delay: time.Hour, Count: 1})
	w.put("", 0, 1)
	got := make(chan messaging.SettlementResult, 1)
	w.start(w.manual(func(ctx context.Context, _ call, s messaging.SettlementController) {
		if err := s.Ack(); err != nil {
			t.Error(err)
		}
		r, err := s.Wait(ctx)
		if !errors.Is(err, messaging.ErrSettlementUnknown) {
			t.Errorf("the wait says %v", err)
		}
		got <- r
	}))
	if r := <-got; r.Status != messaging.SettlementUnknown || r.Failure == nil || r.Failure.Category != messaging.CategoryAmbiguous {
		t.Errorf("%+v", r)
	}
}

// C36: only what is reported as a success is settled; a missing, repeated or impossible answer leaves its item unfinished.
func TestC36_ABatchSettlesItsSuccessesAlone(t *testing.T) {
	t.Parallel()
	ok := func(ns ...int) (out []messaging.ItemResult) {
		for _, n := range ns {
			out = append(out, messaging.ItemResult{Index: n, Result: messaging.Success()})
		}
		return out
	}
	for what, row := range map[string]struct {
		answer func() []messaging.ItemResult
		again  []int // items that are handled again
	}{
		"all":            {func() []messaging.ItemResult { return ok(0, 1, 2, 3) }, nil},
		"nil":            {func() []messaging.ItemResult { return nil }, []int{0, 1, 2, 3}},
		"the last alone": {func() []messaging.ItemResult { return ok(3) }, []int{0, 1, 2}},
		"one failed": {func() []messaging.ItemResult {
			return append(ok(0, 2, 3), messaging.ItemResult{Index: 1, Result: transient()})
		}, []int{1}},
		"index 4":  {func() []messaging.ItemResult { return ok(0, 1, 2, 3, 4) }, nil},
		"index -1": {func() []messaging.ItemResult { return ok(-1, 0, 1, 2) }, []int{3}},
		"twice": {func() []messaging.ItemResult {
			return append(ok(0, 1, 2, 3), messaging.ItemResult{Index: 2, Result: transient()})
		}, []int{2}},
		"a panic":         {func() []messaging.ItemResult { panic("x") }, []int{0, 1, 2, 3}},
		"no verdict of 1": {func() []messaging.ItemResult { return append(ok(0, 2, 3), messaging.ItemResult{Index: 1}) }, []int{1}},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, true, func(c *consume.Config) { c.Ordering, c.Batch = messaging.OrderingPartition, 4 })
			w.put("a", 100, 1) // it holds the others back until they are one batch
			release := make(chan struct{})
			calls := 0
			var again []int
			w.start(consume.OnBatch(created, messaging.BatchHandlerFunc[order](func(_ context.Context, ds []messaging.Delivery[order]) (out []messaging.ItemResult) {
				switch calls++; calls {
				case 1:
					<-release
				case 2:
					if len(ds) != 4 {
						t.Errorf("a batch of %d, want 4", len(ds))
					}
					return row.answer()
				default:
					for _, d := range ds {
						if again = append(again, d.Payload.N); d.Meta.Attempt != 2 {
							t.Errorf("attempt %d", d.Meta.Attempt)
						}
					}
				}
				for n := range ds {
					out = append(out, messaging.ItemResult{Index: n, Result: messaging.Success()})
				}
				return out
			})))
			w.eventually("it does", func() bool { return w.k.Status().Running == 1 })
			w.put("a", 0, 4)
			w.eventually("four wait", func() bool { return w.k.Status().Waiting == 4 })
			close(release)
			w.settled()
			w.eventually("five successes", func() bool { return w.outcomes("SUCCESS") == 5 })
			if !slices.Equal(again, row.again) {
				t.Errorf("again: %v, want %v", again, row.again)
			}
		})
	}
}
