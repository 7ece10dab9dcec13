package relay_test

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/backend-skeleton/relay/messaging"
	"github.com/backend-skeleton/relay/messaging/transport"
)

// fakeBroker stores what it confirms; answer decides per message, by its key and the try.
type fakeBroker struct {
	prefix bool
	answer func(key string, id messaging.MessageID, try int) (r messaging.PublishResult, stored bool)
	delay  time.Duration

	mu     sync.Mutex
	tries  map[messaging.MessageID]int
	stored []stored
	down   bool
	muted  []func()
	late   []func(messaging.PublishResult) // the same, with another answer
	sizes  []int                           // of the calls
	open   int                             // calls now
	most   int                             // calls at one time
	mute   bool
	muteTo map[messaging.DestinationName]bool
}

type stored struct {
	id  messaging.MessageID
	key string
}

func newFakeBroker() *fakeBroker { return &fakeBroker{tries: map[messaging.MessageID]int{}} }

func (b *fakeBroker) Capabilities(context.Context, transport.Endpoint) (messaging.Capabilities, error) {
	return messaging.Capabilities{BrokerAcknowledgement: true, KeyedOrdering: true}, nil
}

func (b *fakeBroker) Publisher(context.Context, []transport.Endpoint) (transport.Publisher, error) {
	return fakePublisher{b}, nil
}

func (b *fakeBroker) Subscribe(context.Context, transport.Subscription, transport.Sink) (transport.Consumer, error) {
	return nil, messaging.ErrCapabilityUnavailable
}

func (b *fakeBroker) Inspect(context.Context, []transport.Endpoint) ([]transport.Drift, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.down {
		return nil, messaging.ErrBrokerUnavailable
	}
	return nil, nil
}

func (b *fakeBroker) Close(context.Context) error { return nil }

type fakePublisher struct{ b *fakeBroker }

func (p fakePublisher) KeyPrefix(transport.Endpoint) bool { return p.b.prefix }

func (p fakePublisher) Close(context.Context) error { return nil }

func (p fakePublisher) Publish(ctx context.Context, to transport.Endpoint, ms []transport.Message, done func(int, messaging.PublishResult)) {
	b := p.b
	b.set(func() {
		b.sizes, b.open = append(b.sizes, len(ms)), b.open+1
		b.most = max(b.most, b.open)
	})
	defer b.set(func() { b.open-- })
	if b.delay > 0 {
		select {
		case <-time.After(b.delay): // the broker's own time to answer
		case <-ctx.Done():
		}
	}
	broken := map[string]bool{}
	for i, m := range ms {
		key := string(m.Key)
		if b.prefix && broken[key] && !m.NullKey {
			done(i, rejected(messaging.CategoryTransientInfrastructure, messaging.CodePredecessorNotStored, messaging.NotTransmitted))
			continue
		}
		r, ok, muted := b.take(key, m.ID)
		muted = muted || b.muteTo[to.Name]
		if !ok {
			broken[key] = true
		}
		if muted {
			b.mu.Lock()
			b.muted = append(b.muted, func() { done(i, r) })
			b.late = append(b.late, func(r messaging.PublishResult) { done(i, r) })
			b.mu.Unlock()
			continue
		}
		done(i, r)
	}
}

func (b *fakeBroker) take(key string, id messaging.MessageID) (messaging.PublishResult, bool, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.down {
		return rejected(messaging.CategoryTransientInfrastructure, messaging.CodeBrokerUnreachable, messaging.NotTransmitted), false, false
	}
	b.tries[id]++
	r, ok := confirmed(), true
	if b.answer != nil {
		r, ok = b.answer(key, id, b.tries[id])
	}
	if ok {
		b.stored = append(b.stored, stored{id, key})
	}
	return r, r.Completion == messaging.Confirmed, b.mute
}

func (b *fakeBroker) set(f func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	f()
}

func (b *fakeBroker) all() []stored {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.stored)
}

func confirmed() messaging.PublishResult {
	return messaging.PublishResult{
		Completion: messaging.Confirmed, Routing: messaging.RoutingNotApplicable,
		Evidence: messaging.Evidence{Transmission: messaging.Transmitted, BrokerAccepted: true, Level: messaging.LevelReplicationOrPersistenceAck},
	}
}

func rejected(c messaging.Category, code string, t messaging.Transmission) messaging.PublishResult {
	return messaging.PublishResult{
		Completion: messaging.Rejected, Routing: messaging.RoutingNotApplicable, Evidence: messaging.Evidence{Transmission: t, Level: messaging.LevelNone},
		Failure: messaging.NewFailure(c, code, ""),
	}
}

func ambiguous() messaging.PublishResult {
	return messaging.PublishResult{
		Completion: messaging.Ambiguous, Routing: messaging.RoutingUnknown,
		Evidence: messaging.Evidence{Transmission: messaging.MayHaveBeenTransmitted, Level: messaging.LevelNone},
		Failure:  messaging.NewFailure(messaging.CategoryAmbiguous, messaging.CodeConnectionLost, ""),
	}
}
