package messagingtest

import (
	"context"
	"slices"
	"sync"
	"testing"

	"github.com/backend-skeleton/relay/messaging"
	"github.com/backend-skeleton/relay/messaging/transport"
)

// wrongRuntimes are consumers that must not pass, over an adapter that does.
var wrongRuntimes = map[string]struct {
	wrong func(c *Consuming)
	stop  func(stop func(context.Context) error) func(context.Context) error
	finds string
}{
	"ack before the handler":           {wrong: settlesAtDelivery, finds: "normal consume"},
	"dead letter after the settlement": {wrong: settlesBeforeDeadLetter, finds: "DLQ confirm"},
	"settles when the dead letter is refused": {
		wrong: through(lies(onCode(messaging.CodeNacked, confirmedAnyway))), finds: "DLQ failure",
	},
	"settles when the dead letter is ambiguous": {
		wrong: through(lies(onCode(messaging.CodeConnectionLost, confirmedAnyway))), finds: "DLQ failure",
	},
	"another id for a dead letter": {wrong: through(alters(handOver(freshID))), finds: "DLQ confirm"},
	"no reason for a dead letter": {
		wrong: through(alters(handOver(func(m transport.Message) transport.Message { return rewrite(m, headerCode, "") }))), finds: "DLQ confirm",
	},
	"an identity for a foreign message": {wrong: through(alters(identified)), finds: "schema failure"},
	"one attempt too many":              {wrong: func(c *Consuming) { c.MaxAttempts++ }, finds: "retry exhausted"},
	"one attempt only":                  {wrong: func(c *Consuming) { c.MaxAttempts = 1 }, finds: "handler failure"},
	"no verdict is a success":           {wrong: handles(zeroIsSuccess), finds: "handler failure"},
	"a failure is a success":            {wrong: handles(retryIsSuccess), finds: "handler failure"},
	"a retry behind its successors":     {wrong: handles(retriesBehind()), finds: "ordering scope"},
	"an unreadable payload is handled":  {wrong: func(c *Consuming) { c.Codec = guessing{} }, finds: "schema failure"},
	"parked in the dead-letter queue":   {wrong: func(c *Consuming) { c.Parking = c.DeadLetter }, finds: "schema failure"},
	"stops in the middle":               {stop: stopsAtOnce, finds: "graceful shutdown"},
}

func TestEveryWrongRuntimeFails(t *testing.T) {
	t.Parallel()
	for name, m := range wrongRuntimes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			whole := MemorySubject(kinds["pulsar"].able, true)
			report := rehearse(t, func(tb testing.TB) Subject {
				s := whole(tb)
				s.Runtime = func(ctx context.Context, c Consuming) (func(context.Context) error, error) {
					if m.wrong != nil {
						m.wrong(&c)
					}
					stop, err := simpleRuntime(ctx, c)
					if err == nil && m.stop != nil {
						stop = m.stop(stop)
					}
					return stop, err
				}
				return s
			}, m.finds)
			if !slices.Contains(report.Failed, m.finds) {
				t.Errorf("%q did not find it; the report:\n%s", m.finds, report)
			}
		})
	}
}

// through lets the runtime see the adapter as a mutant shows it.
func through(wrong func(*Subject, *mutant)) func(*Consuming) {
	return func(c *Consuming) {
		m := &mutant{Adapter: c.Adapter}
		wrong(nil, m)
		c.Adapter = m
	}
}

func handles(f func(ctx context.Context, h messaging.Handler[Item], d messaging.Delivery[Item]) messaging.Result) func(*Consuming) {
	return func(c *Consuming) {
		h := c.Handler
		c.Handler = messaging.HandlerFunc[Item](func(ctx context.Context, d messaging.Delivery[Item]) messaging.Result { return f(ctx, h, d) })
	}
}

// settlesAtDelivery settles what the adapter delivers, and tells the runtime so when it asks.
func settlesAtDelivery(c *Consuming) {
	through(func(_ *Subject, m *mutant) { ackAtDelivery(nil, m) })(c)
}

// settlesBeforeDeadLetter settles the source when its dead letter is about to be published.
func settlesBeforeDeadLetter(c *Consuming) {
	var mu sync.Mutex
	inHand := map[messaging.MessageID]func(){}
	through(func(_ *Subject, m *mutant) {
		m.sink = func(s transport.Sink, consumer func() transport.Consumer) transport.Sink {
			return &mutantSink{Sink: s, deliver: func(s transport.Sink, d transport.Delivery) {
				mu.Lock()
				inHand[d.ID] = func() { consumer().Settle(d, transport.Settlement{Verb: transport.Ack}, nil) }
				mu.Unlock()
				s.Deliver(d)
			}}
		}
		m.publish = func(p transport.Publisher, ctx context.Context, to transport.Endpoint, ms []transport.Message, done func(int, messaging.PublishResult)) {
			mu.Lock()
			settle := inHand[ms[0].ID]
			mu.Unlock()
			settle()
			p.Publish(ctx, to, ms, done)
		}
		consumes(mutantConsumer{settle: notSent})(nil, m)
	})(c)
}

// handOver alters the copies that a runtime makes.
func handOver(f func(transport.Message) transport.Message) func(transport.Message) transport.Message {
	return func(m transport.Message) transport.Message {
		if header(m, headerCode) != "" {
			return f(m)
		}
		return m
	}
}

func identified(m transport.Message) transport.Message {
	if header(m, transport.HeaderID) == "" {
		m.ID = messaging.NewMessageID()
		m.Header = append(m.Header, transport.Header{Name: transport.HeaderID, Value: []byte(m.ID.String())})
	}
	return m
}

func zeroIsSuccess(ctx context.Context, h messaging.Handler[Item], d messaging.Delivery[Item]) messaging.Result {
	r := h.Handle(ctx, d)
	if r.Verdict() == 0 {
		return messaging.Success()
	}
	return r
}

func retryIsSuccess(ctx context.Context, h messaging.Handler[Item], d messaging.Delivery[Item]) messaging.Result {
	if r := h.Handle(ctx, d); r.Verdict() != messaging.VerdictRetry {
		return r
	}
	return messaging.Success()
}

// retriesBehind tries a failed message again when its successor has been handled.
func retriesBehind() func(ctx context.Context, h messaging.Handler[Item], d messaging.Delivery[Item]) messaging.Result {
	var mu sync.Mutex
	failed := map[string]messaging.Delivery[Item]{}
	return func(ctx context.Context, h messaging.Handler[Item], d messaging.Delivery[Item]) messaging.Result {
		r := h.Handle(ctx, d)
		mu.Lock()
		defer mu.Unlock()
		if again, waits := failed[d.OrderingKey]; waits {
			delete(failed, d.OrderingKey)
			again.Meta.Attempt++
			return h.Handle(ctx, again)
		}
		if r.Verdict() == messaging.VerdictRetry {
			failed[d.OrderingKey] = d
			return messaging.Success()
		}
		return r
	}
}

// guessing decodes everything.
type guessing struct{ messaging.Codec }

func (guessing) Decode(context.Context, messaging.MessageType, messaging.SchemaVersion, *messaging.SchemaReference, []byte, any) error {
	return nil
}

func stopsAtOnce(stop func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		go func() { _ = stop(ctx) }()
		return nil
	}
}
