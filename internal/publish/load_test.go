package publish_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/backend-skeleton/relay/internal/publish"
	"github.com/backend-skeleton/relay/messaging"
	"github.com/backend-skeleton/relay/messaging/transport"
)

// busy answers from goroutines of its own, in any order, and counts how many messages it holds.
type busy struct {
	held, most, broken atomic.Int64
	answers            sync.WaitGroup
}

func (b *busy) Publish(_ context.Context, _ transport.Endpoint, ms []transport.Message, done func(int, messaging.PublishResult)) {
	now := b.held.Add(int64(len(ms)))
	for most := b.most.Load(); now > most && !b.most.CompareAndSwap(most, now); most = b.most.Load() {
	}
	for _, i := range rand.Perm(len(ms)) {
		b.answers.Go(func() {
			r := confirmed()
			if rand.IntN(10) == 0 {
				r = *refused(messaging.Rejected, messaging.CategoryThrottled, messaging.CodeThrottled)
				b.broken.Add(1)
			}
			b.held.Add(-1)
			done(i, r)
		})
	}
}

func (b *busy) Close(context.Context) error { b.answers.Wait(); return nil }

// Many callers of every form share few places: the bound holds, each message has one verdict, and every place comes back.
func TestTheBoundHoldsUnderLoad(t *testing.T) {
	t.Parallel()
	const places, workers, each = 8, 32, 50
	adapter := &busy{}
	b := newBench(t, &edge{}, 0)
	b.Granted = all
	b.Broker = publish.NewBroker("kafka", adapter, places, publish.Hooks{})
	p := publisherOf(t, b)
	batch, err := publish.NewBatch(b.Destination, created)
	if err != nil {
		t.Fatal(err)
	}
	patient := &messaging.PublishOptions{Timeout: 5 * time.Minute}
	var stored, refusals atomic.Int64
	count := func(r messaging.PublishResult, err error) {
		switch {
		case err == nil && r.Completion == messaging.Confirmed:
			stored.Add(1)
		case r.Completion == messaging.Rejected && codeOf(err) == messaging.CodeThrottled:
			refusals.Add(1)
		default:
			t.Errorf("%+v, %v", r, err)
		}
	}
	var callers, calls sync.WaitGroup
	for w := range workers {
		callers.Go(func() {
			for range each {
				switch w % 3 {
				case 0:
					count(p.Publish(t.Context(), event(""), patient))
				case 1:
					calls.Add(1)
					p.PublishAsync(t.Context(), event(""), patient, func(r messaging.PublishResult, err error) { count(r, err); calls.Done() })
				default:
					rs, err := batch.PublishBatch(t.Context(), events("", "", ""), patient)
					failed := &messaging.BatchError{}
					errors.As(err, &failed)
					for i, r := range rs {
						count(r, failed.Items[i])
					}
				}
			}
		})
	}
	callers.Wait()
	calls.Wait()
	if err := b.Broker.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := b.Broker.InFlight(); n != 0 {
		t.Errorf("%d places did not come back", n)
	}
	if most := adapter.most.Load(); most > places || most < 2 {
		t.Errorf("%d messages were in flight at most, with %d places", most, places)
	}
	want := int64(0)
	for w := range workers {
		want += each
		if w%3 == 2 {
			want += 2 * each
		}
	}
	if stored.Load()+refusals.Load() != want || refusals.Load() != adapter.broken.Load() {
		t.Errorf("%d stored and %d refused of %d, the adapter refused %d", stored.Load(), refusals.Load(), want, adapter.broken.Load())
	}
}
