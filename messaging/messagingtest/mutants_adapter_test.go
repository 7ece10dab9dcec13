package messagingtest

import (
	"context"
	"sync"

	"github.com/backend-skeleton/relay/messaging"
	"github.com/backend-skeleton/relay/messaging/transport"
)

func asRejected(r messaging.PublishResult) messaging.PublishResult {
	r.Completion = messaging.Rejected
	return r
}

func retryable(r messaging.PublishResult) messaging.PublishResult {
	r.Failure = messaging.NewFailure(messaging.CategoryTransientInfrastructure, messaging.CodeTooLarge, "a test says so")
	return r
}

// earlySuccess confirms what is sent without waiting.
func earlySuccess(_ *Subject, m *mutant) {
	m.publish = func(p transport.Publisher, ctx context.Context, to transport.Endpoint, ms []transport.Message, done func(int, messaging.PublishResult)) {
		p.Publish(ctx, to, ms, func(int, messaging.PublishResult) {})
		for i := range ms {
			done(i, confirmedAnyway(messaging.PublishResult{}))
		}
	}
}

// overstated is a broker that proves nothing under an adapter that says it did.
func overstated(s *Subject, m *mutant) {
	weak := kinds["pulsar"].able
	weak.ReplicationOrPersistenceEvidence = false
	*s = NewBroker(weak).Subject(true)
	m.Adapter = s.Adapter
	lies(func(r messaging.PublishResult) messaging.PublishResult {
		if r.Completion == messaging.Confirmed {
			r.Evidence.Level = messaging.LevelReplicationOrPersistenceAck
		}
		return r
	})(s, m)
}

func answersTwice(_ *Subject, m *mutant) {
	m.publish = func(p transport.Publisher, ctx context.Context, to transport.Endpoint, ms []transport.Message, done func(int, messaging.PublishResult)) {
		p.Publish(ctx, to, ms, func(i int, r messaging.PublishResult) { done(i, r); done(i, r) })
	}
}

// noAnswerAtAll forgets whoever asks when the broker does not answer.
func noAnswerAtAll(_ *Subject, m *mutant) {
	m.publish = func(p transport.Publisher, ctx context.Context, to transport.Endpoint, ms []transport.Message, done func(int, messaging.PublishResult)) {
		p.Publish(ctx, to, ms, func(i int, r messaging.PublishResult) {
			if r.Completion != messaging.Ambiguous {
				done(i, r)
			}
		})
	}
}

func headerAdded(m transport.Message) transport.Message {
	m.Header = append(m.Header, transport.Header{Name: "msg.sent-by", Value: []byte("me")})
	return m
}

func payloadChanged(m transport.Message) transport.Message {
	m.Value = append(m.Value, ' ')
	return m
}

// idRewritten gives an id that it has seen before another one.
func idRewritten() func(*Subject, *mutant) {
	return func(s *Subject, m *mutant) {
		var mu sync.Mutex
		seen := map[messaging.MessageID]bool{}
		alters(func(m transport.Message) transport.Message {
			mu.Lock()
			defer mu.Unlock()
			if seen[m.ID] {
				return freshID(m)
			}
			seen[m.ID] = true
			return m
		})(s, m)
	}
}

func redriveID(m transport.Message) transport.Message {
	if header(m, transport.HeaderRedriveID) != "" {
		return freshID(m)
	}
	return m
}

// reversed publishes a call from behind.
func reversed(_ *Subject, m *mutant) {
	m.publish = func(p transport.Publisher, ctx context.Context, to transport.Endpoint, ms []transport.Message, done func(int, messaging.PublishResult)) {
		for i := len(ms) - 1; i >= 0; i-- {
			p.Publish(ctx, to, ms[i:i+1], func(_ int, r messaging.PublishResult) { done(i, r) })
		}
	}
}

// noPrefix makes a call of every message.
func noPrefix(_ *Subject, m *mutant) {
	m.publish = func(p transport.Publisher, ctx context.Context, to transport.Endpoint, ms []transport.Message, done func(int, messaging.PublishResult)) {
		for i := range ms {
			p.Publish(ctx, to, ms[i:i+1], func(_ int, r messaging.PublishResult) { done(i, r) })
		}
	}
}

func cutShort(m transport.Message) transport.Message {
	m.Value = m.Value[:min(len(m.Value), 64<<10)]
	return m
}

// denied is let in, or judged wrong, under an identity that the broker refuses.
func denied(d Denial) func(*Subject, *mutant) {
	return func(s *Subject, _ *mutant) {
		as, open := s.As, s.Adapter
		s.As = func(asked Denial) (transport.Adapter, error) {
			switch {
			case asked != d:
				return as(asked)
			case d == BadCertificate:
				return &mutant{Adapter: open}, nil
			}
			inner, err := as(asked)
			m := &mutant{Adapter: inner}
			lies(func(r messaging.PublishResult) messaging.PublishResult {
				if d == NoRight {
					return confirmedAnyway(r)
				}
				r.Completion = messaging.Ambiguous
				return r
			})(s, m)
			return m, err
		}
	}
}

func closesAtOnce(_ *Subject, m *mutant) {
	m.closing = func(p transport.Publisher, _ context.Context) error {
		over, cancel := context.WithCancel(context.Background())
		cancel()
		return p.Close(over)
	}
}

// tellsTheKey quotes what it was given.
func tellsTheKey(_ *Subject, m *mutant) {
	m.publish = func(p transport.Publisher, ctx context.Context, to transport.Endpoint, ms []transport.Message, done func(int, messaging.PublishResult)) {
		p.Publish(ctx, to, ms, func(i int, r messaging.PublishResult) {
			if r.Failure != nil {
				r.Failure = messaging.NewFailure(r.Failure.Category, r.Failure.Code, "no place for "+string(ms[i].Key))
			}
			done(i, r)
		})
	}
}

func ackAtDelivery(_ *Subject, m *mutant) {
	m.sink = func(s transport.Sink, c func() transport.Consumer) transport.Sink {
		return &mutantSink{Sink: s, deliver: func(s transport.Sink, d transport.Delivery) {
			c().Settle(d, transport.Settlement{Verb: transport.Ack}, nil)
			s.Deliver(d)
		}}
	}
	consumes(mutantConsumer{settle: notSent})(nil, m)
}

func notSent(_ transport.Consumer, _ transport.Delivery, _ transport.Settlement, done func(messaging.SettlementResult)) {
	done(messaging.SettlementResult{Status: messaging.Settled, Proof: messaging.ProofBrokerAcked})
}

func settledAnyway(c transport.Consumer, d transport.Delivery, s transport.Settlement, done func(messaging.SettlementResult)) {
	c.Settle(d, s, func(r messaging.SettlementResult) {
		if r.Status == messaging.SettlementUnknown {
			r = messaging.SettlementResult{Status: messaging.Settled, Proof: messaging.ProofBrokerAcked}
		}
		done(r)
	})
}

// epochIgnored settles whatever delivery of the message is the youngest.
func epochIgnored(_ *Subject, m *mutant) {
	var mu sync.Mutex
	young := map[messaging.MessageID]transport.Delivery{}
	m.sink = func(s transport.Sink, _ func() transport.Consumer) transport.Sink {
		return &mutantSink{Sink: s, deliver: func(s transport.Sink, d transport.Delivery) {
			mu.Lock()
			young[d.ID] = d
			mu.Unlock()
			s.Deliver(d)
		}}
	}
	consumes(mutantConsumer{settle: func(c transport.Consumer, d transport.Delivery, s transport.Settlement, done func(messaging.SettlementResult)) {
		mu.Lock()
		d = young[d.ID]
		mu.Unlock()
		c.Settle(d, s, done)
	}})(nil, m)
}

func withoutDelay(c transport.Consumer, d transport.Delivery, s transport.Settlement, done func(messaging.SettlementResult)) {
	s.Delay = 0
	c.Settle(d, s, done)
}

func failInstead(c transport.Consumer, d transport.Delivery, s transport.Settlement, done func(messaging.SettlementResult)) {
	if s.Verb == transport.Release {
		s.Verb = transport.Fail
	}
	c.Settle(d, s, done)
}

func silentLoss(_ *Subject, m *mutant) {
	m.sink = func(s transport.Sink, _ func() transport.Consumer) transport.Sink {
		return &mutantSink{Sink: s, lost: true}
	}
}

func unitPerKey(s transport.Sink, d transport.Delivery) {
	d.Unit.Name += "/" + string(d.Key)
	s.Deliver(d)
}
