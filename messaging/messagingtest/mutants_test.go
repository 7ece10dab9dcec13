package messagingtest

import (
	"context"
	"slices"
	"sync"
	"testing"

	"github.com/backend-skeleton/relay/messaging"
	"github.com/backend-skeleton/relay/messaging/transport"
)

// mutant is an adapter with one thing wrong.
type mutant struct {
	transport.Adapter
	// publish stands in for a publisher's Publish.
	publish func(p transport.Publisher, ctx context.Context, to transport.Endpoint, ms []transport.Message, done func(int, messaging.PublishResult))
	closing func(p transport.Publisher, ctx context.Context) error
	// sink and consumer change what lies between an adapter and a runtime.
	sink     func(s transport.Sink, c func() transport.Consumer) transport.Sink
	consumer func(c transport.Consumer) transport.Consumer
}

func (m *mutant) Publisher(ctx context.Context, es []transport.Endpoint) (transport.Publisher, error) {
	p, err := m.Adapter.Publisher(ctx, es)
	if err != nil {
		return nil, err
	}
	return &mutantPublisher{p, m}, nil
}

type mutantPublisher struct {
	transport.Publisher
	m *mutant
}

func (p *mutantPublisher) KeyPrefix(to transport.Endpoint) bool {
	return p.Publisher.(transport.KeyPrefixer).KeyPrefix(to)
}

func (p *mutantPublisher) Publish(ctx context.Context, to transport.Endpoint, ms []transport.Message, done func(int, messaging.PublishResult)) {
	if p.m.publish == nil {
		p.Publisher.Publish(ctx, to, ms, done)
		return
	}
	p.m.publish(p.Publisher, ctx, to, ms, done)
}

func (p *mutantPublisher) Close(ctx context.Context) error {
	if p.m.closing != nil {
		return p.m.closing(p.Publisher, ctx)
	}
	return p.Publisher.Close(ctx)
}

func (m *mutant) Subscribe(ctx context.Context, s transport.Subscription, sink transport.Sink) (transport.Consumer, error) {
	var mu sync.Mutex
	var c transport.Consumer
	ready := make(chan struct{})
	if m.sink != nil {
		sink = m.sink(sink, func() transport.Consumer { <-ready; mu.Lock(); defer mu.Unlock(); return c })
	}
	made, err := m.Adapter.Subscribe(ctx, s, sink)
	if err != nil {
		return nil, err
	}
	mu.Lock()
	c = made
	mu.Unlock()
	close(ready)
	if m.consumer != nil {
		return m.consumer(made), nil
	}
	return made, nil
}

// lies turns results into others.
func lies(f func(messaging.PublishResult) messaging.PublishResult) func(s *Subject, m *mutant) {
	return func(_ *Subject, m *mutant) {
		m.publish = func(p transport.Publisher, ctx context.Context, to transport.Endpoint, ms []transport.Message, done func(int, messaging.PublishResult)) {
			p.Publish(ctx, to, ms, func(i int, r messaging.PublishResult) { done(i, f(r)) })
		}
	}
}

// alters turns messages into others.
func alters(f func(m transport.Message) transport.Message) func(s *Subject, m *mutant) {
	return func(_ *Subject, m *mutant) {
		m.publish = func(p transport.Publisher, ctx context.Context, to transport.Endpoint, ms []transport.Message, done func(int, messaging.PublishResult)) {
			changed := make([]transport.Message, len(ms))
			for i := range ms {
				changed[i] = f(clone(ms[i]))
			}
			p.Publish(ctx, to, changed, done)
		}
	}
}

func confirmedAnyway(r messaging.PublishResult) messaging.PublishResult {
	return messaging.PublishResult{
		Completion: messaging.Confirmed, Routing: messaging.RoutingRouted, Attempts: 1, Elapsed: r.Elapsed,
		Evidence: messaging.Evidence{Transmission: messaging.Transmitted, BrokerAccepted: true, Level: messaging.LevelReplicationOrPersistenceAck},
	}
}

func onCode(code string, f func(messaging.PublishResult) messaging.PublishResult) func(messaging.PublishResult) messaging.PublishResult {
	return func(r messaging.PublishResult) messaging.PublishResult {
		if r.Failure != nil && r.Failure.Code == code {
			return f(r)
		}
		return r
	}
}

// rewrite replaces a header, or drops it with "".
func rewrite(m transport.Message, name, value string) transport.Message {
	m.Header = slices.DeleteFunc(m.Header, func(h transport.Header) bool { return h.Name == name && value == "" })
	for i, h := range m.Header {
		if h.Name == name {
			m.Header[i].Value = []byte(value)
		}
	}
	return m
}

func freshID(m transport.Message) transport.Message {
	m.ID = messaging.NewMessageID()
	return rewrite(m, transport.HeaderID, m.ID.String())
}

// mutantConsumer changes calls of a consumer; nil leaves a call as it is.
type mutantConsumer struct {
	transport.Consumer
	settle func(c transport.Consumer, d transport.Delivery, s transport.Settlement, done func(messaging.SettlementResult))
	pause  bool // ignored
	stop   bool // ignored
}

func (c *mutantConsumer) Settle(d transport.Delivery, s transport.Settlement, done func(messaging.SettlementResult)) {
	if c.settle == nil {
		c.Consumer.Settle(d, s, done)
		return
	}
	c.settle(c.Consumer, d, s, done)
}

func (c *mutantConsumer) Pause(us ...transport.Unit) {
	if !c.pause {
		c.Consumer.Pause(us...)
	}
}

func (c *mutantConsumer) Stop(ctx context.Context) error {
	if c.stop {
		return nil
	}
	return c.Consumer.Stop(ctx)
}

func consumes(c mutantConsumer) func(*Subject, *mutant) {
	return func(_ *Subject, m *mutant) {
		m.consumer = func(inner transport.Consumer) transport.Consumer {
			changed := c
			changed.Consumer = inner
			return &changed
		}
	}
}

// mutantSink changes what arrives.
type mutantSink struct {
	transport.Sink
	deliver func(s transport.Sink, d transport.Delivery)
	lost    bool // not told
}

func (s *mutantSink) Deliver(d transport.Delivery) {
	if s.deliver == nil {
		s.Sink.Deliver(d)
		return
	}
	s.deliver(s.Sink, d)
}

func (s *mutantSink) Lost(us []transport.Unit) {
	if !s.lost {
		s.Sink.Lost(us)
	}
}

func delivers(f func(s transport.Sink, d transport.Delivery)) func(*Subject, *mutant) {
	return func(_ *Subject, m *mutant) {
		m.sink = func(s transport.Sink, _ func() transport.Consumer) transport.Sink {
			return &mutantSink{Sink: s, deliver: f}
		}
	}
}

// mutants are adapters that must not pass, each with the case that has to find it.
var mutants = map[string]struct {
	wrong func(*Subject, *mutant)
	finds string
}{
	"success on timeout":           {lies(onCode(messaging.CodeConfirmTimeout, confirmedAnyway)), "ambiguity"},
	"a cut is a refusal":           {lies(onCode(messaging.CodeConnectionLost, asRejected)), "ambiguity"},
	"a late ack is a success":      {earlySuccess, "ambiguity"},
	"swallowed nack":               {lies(onCode(messaging.CodeNacked, confirmedAnyway)), "reject"},
	"unroutable is confirmed":      {lies(onCode(messaging.CodeUnroutable, confirmedAnyway)), "reject"},
	"more is proved than was":      {overstated, "normal publish"},
	"an answer twice":              {answersTwice, "normal publish"},
	"no answer at all":             {noAnswerAtAll, "ambiguity"},
	"header dropped":               {alters(func(m transport.Message) transport.Message { return rewrite(m, "x-shop", "") }), "header policy"},
	"header added":                 {alters(headerAdded), "header policy"},
	"payload changed":              {alters(payloadChanged), "normal publish"},
	"another id for a retry":       {idRewritten(), "same-id retry"},
	"another id for a redrive":     {alters(redriveID), "redrive identity"},
	"order ignored":                {reversed, "ordering scope"},
	"goes on after a refusal":      {noPrefix, "ordering scope"},
	"large ones take the rest":     {lies(onCode(messaging.CodeTooLarge, retryable)), "payload limit"},
	"large ones are cut":           {alters(cutShort), "payload limit"},
	"wrong password, ambiguous":    {denied(BadCredential), "credential"},
	"no right, yet confirmed":      {denied(NoRight), "ACL"},
	"certificate not verified":     {denied(BadCertificate), "TLS failure"},
	"closes without answers":       {closesAtOnce, "graceful shutdown"},
	"tells the key":                {tellsTheKey, "cardinality"},
	"ack before the handler":       {ackAtDelivery, "redelivery"},
	"a lost answer is a success":   {consumes(mutantConsumer{settle: settledAnyway}), "settlement loss"},
	"epoch ignored":                {epochIgnored, "settlement loss"},
	"delay ignored":                {consumes(mutantConsumer{settle: withoutDelay}), "redelivery"},
	"release is counted":           {consumes(mutantConsumer{settle: failInstead}), "redelivery"},
	"pause ignored":                {consumes(mutantConsumer{pause: true}), "normal consume"},
	"stop ignored":                 {consumes(mutantConsumer{stop: true}), "graceful shutdown"},
	"ack is not sent":              {consumes(mutantConsumer{settle: notSent}), "normal consume"},
	"lost units are not told":      {silentLoss, "redelivery"},
	"delivers every message twice": {delivers(func(s transport.Sink, d transport.Delivery) { s.Deliver(d); s.Deliver(d) }), "normal consume"},
	"a unit for every key":         {delivers(unitPerKey), "cardinality"},
}

func TestEveryMutantFails(t *testing.T) {
	t.Parallel()
	for name, m := range mutants {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			whole := MemorySubject(kinds["pulsar"].able, true)
			report := rehearse(t, func(tb testing.TB) Subject {
				s := whole(tb)
				sick := &mutant{Adapter: s.Adapter}
				m.wrong(&s, sick)
				s.Adapter = sick
				return s
			}, m.finds)
			if !slices.Contains(report.Failed, m.finds) {
				t.Errorf("%q did not find it; the report:\n%s", m.finds, report)
			}
		})
	}
}
