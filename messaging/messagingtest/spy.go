package messagingtest

import (
	"context"
	"slices"
	"sync"

	"github.com/backend-skeleton/relay/messaging"
	"github.com/backend-skeleton/relay/messaging/transport"
)

// spy stands between a runtime and an adapter and writes down what the runtime
// asks for, in the order in which it does.
type spy struct {
	transport.Adapter

	mu     sync.Mutex // guards what follows
	events []event
}

// event is a moment in the life of a message.
type event struct {
	what string // started, ended, settling, publishing, confirmed
	id   string
	to   messaging.DestinationName // of a publish
	verb transport.Verb            // of a settlement
}

func (s *spy) note(e event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.events = append(s.events, e)
}

// where gives the index of the first event of a message, -1 for none.
func (s *spy) where(what string, m transport.Message) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	id := m.ID.String()
	return slices.IndexFunc(s.events, func(e event) bool { return e.what == what && e.id == id })
}

func (s *spy) happened(what string, m transport.Message) bool { return s.where(what, m) >= 0 }

func (s *spy) Publisher(ctx context.Context, es []transport.Endpoint) (transport.Publisher, error) {
	p, err := s.Adapter.Publisher(ctx, es)
	if err != nil {
		return nil, err
	}
	return &spyPublisher{p, s}, nil
}

func (s *spy) Subscribe(ctx context.Context, sub transport.Subscription, to transport.Sink) (transport.Consumer, error) {
	c, err := s.Adapter.Subscribe(ctx, sub, to)
	if err != nil {
		return nil, err
	}
	return &spyConsumer{c, s}, nil
}

type spyPublisher struct {
	transport.Publisher
	s *spy
}

func (p *spyPublisher) KeyPrefix(to transport.Endpoint) bool {
	k, able := p.Publisher.(transport.KeyPrefixer)
	return able && k.KeyPrefix(to)
}

func (p *spyPublisher) Publish(ctx context.Context, to transport.Endpoint, ms []transport.Message, done func(int, messaging.PublishResult)) {
	ids := make([]string, len(ms))
	for i, m := range ms {
		ids[i] = m.ID.String()
		p.s.note(event{what: "publishing", id: ids[i], to: to.Name})
	}
	p.Publisher.Publish(ctx, to, ms, func(i int, r messaging.PublishResult) {
		if r.Completion == messaging.Confirmed {
			p.s.note(event{what: "confirmed", id: ids[i], to: to.Name})
		}
		done(i, r)
	})
}

type spyConsumer struct {
	transport.Consumer
	s *spy
}

func (c *spyConsumer) Settle(d transport.Delivery, v transport.Settlement, done func(messaging.SettlementResult)) {
	c.s.note(event{what: "settling", id: d.ID.String(), verb: v.Verb})
	c.Consumer.Settle(d, v, done)
}
