package publish_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"

	"github.com/backend-skeleton/relay/internal/publish"
	"github.com/backend-skeleton/relay/messaging"
	"github.com/backend-skeleton/relay/messaging/codec/json"
	"github.com/backend-skeleton/relay/messaging/codec/raw"
	"github.com/backend-skeleton/relay/messaging/transport"
)

// order is the payload of the tests.
type order struct {
	ID string `json:"id"`
}

var created = messaging.Destination[order]{Name: "order-events", Type: "order.created", Version: 1}

// edge is an adapter's publisher whose answers a test writes.
type edge struct {
	// answer is asked for each message; nil confirms. A nil result holds the message back until the test answers.
	answer func(m transport.Message) *messaging.PublishResult
	prefix bool

	mu    sync.Mutex // guards what follows
	calls [][]transport.Message
	open  []func(messaging.PublishResult)
	ctxs  []context.Context
	ended bool
}

func confirmed() messaging.PublishResult {
	return messaging.PublishResult{
		Completion: messaging.Confirmed, Routing: messaging.RoutingRouted, Attempts: 1,
		Evidence: messaging.Evidence{Transmission: messaging.Transmitted, BrokerAccepted: true, Level: messaging.LevelReplicationOrPersistenceAck},
	}
}

func refused(completion messaging.Completion, c messaging.Category, code string) *messaging.PublishResult {
	return &messaging.PublishResult{
		Completion: completion, Routing: messaging.RoutingUnknown, Attempts: 1, Failure: messaging.NewFailure(c, code, "a test says so"),
		Evidence: messaging.Evidence{Transmission: messaging.Transmitted, Level: messaging.LevelNone},
	}
}

func (e *edge) Publish(ctx context.Context, _ transport.Endpoint, ms []transport.Message, done func(int, messaging.PublishResult)) {
	e.mu.Lock()
	e.calls, e.ctxs = append(e.calls, slices.Clone(ms)), append(e.ctxs, ctx)
	e.mu.Unlock()
	for i, m := range ms {
		r := confirmed()
		if e.answer != nil {
			a := e.answer(m)
			if a == nil {
				e.mu.Lock()
				e.open = append(e.open, func(r messaging.PublishResult) { done(i, r) })
				e.mu.Unlock()
				continue
			}
			r = *a
		}
		done(i, r)
	}
}

func (e *edge) Close(context.Context) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.ended = true
	return nil
}

func (e *edge) KeyPrefix(transport.Endpoint) bool { return e.prefix }

func (e *edge) sent() (ms []transport.Message) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, c := range e.calls {
		ms = append(ms, c...)
	}
	return ms
}

// release answers the i-th message that is held back.
func (e *edge) release(i int, r messaging.PublishResult) {
	e.mu.Lock()
	f := e.open[i]
	e.mu.Unlock()
	f(r)
}

// bench is a destination over an edge, with what its hooks heard.
type bench struct {
	*publish.Destination
	edge *edge

	mu     sync.Mutex // guards what follows
	events []publish.Event
	late   []publish.Event
	audit  []string
}

func newBench(tb testing.TB, e *edge, inFlight int) *bench {
	tb.Helper()
	standard, err := json.New(json.Config{})
	if err != nil {
		tb.Fatal(err)
	}
	bytes, err := raw.New("")
	if err != nil {
		tb.Fatal(err)
	}
	b := &bench{edge: e}
	broker := publish.NewBroker("kafka", e, inFlight, publish.Hooks{
		Done: func(ev publish.Event) { b.mu.Lock(); defer b.mu.Unlock(); b.events = append(b.events, ev) },
		Late: func(ev publish.Event) { b.mu.Lock(); defer b.mu.Unlock(); b.late = append(b.late, ev) },
		Audit: func(_ messaging.DestinationName, what string) {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.audit = append(b.audit, what)
		},
		Misstep: func(_ messaging.DestinationName, from, next publish.State) {
			tb.Errorf("a publish went from %v to %v, which is no step", from, next)
		},
	})
	b.Destination = &publish.Destination{
		Name: created.Name, Broker: broker, Endpoint: transport.Endpoint{Name: created.Name},
		Rules:    publish.Rules{Producer: "orders", Codecs: []messaging.Codec{standard, bytes}},
		Required: messaging.LevelReplicationOrPersistenceAck,
	}
	return b
}

func (b *bench) stages() (out []publish.State) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, e := range b.events {
		out = append(out, e.Stage)
	}
	return out
}

func publisherOf(tb testing.TB, b *bench) messaging.Publisher[order] {
	tb.Helper()
	p, err := publish.New(b.Destination, created)
	if err != nil {
		tb.Fatal(err)
	}
	return p
}

func codeOf(err error) string {
	var f *messaging.Failure
	if errors.As(err, &f) {
		return f.Code
	}
	return ""
}

func event(key string) messaging.Envelope[order] {
	e := created.New(order{ID: "1"})
	e.OrderingKey = key
	return e
}
