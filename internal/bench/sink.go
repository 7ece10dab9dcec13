package bench

import (
	"context"
	"time"

	"github.com/backend-skeleton/relay/messaging"
	"github.com/backend-skeleton/relay/messaging/transport"
)

// sink is a broker that confirms everything, after its delay. It costs nothing else.
type sink struct {
	delay time.Duration
	// seen, if set, is told of every message when it arrives.
	seen func(messaging.MessageID)
}

func (s *sink) Capabilities(context.Context, transport.Endpoint) (messaging.Capabilities, error) {
	return messaging.Capabilities{BrokerAcknowledgement: true, KeyedOrdering: true}, nil
}

func (s *sink) Publisher(context.Context, []transport.Endpoint) (transport.Publisher, error) {
	return s, nil
}

func (s *sink) Subscribe(context.Context, transport.Subscription, transport.Sink) (transport.Consumer, error) {
	return nil, messaging.ErrCapabilityUnavailable
}

func (s *sink) Inspect(context.Context, []transport.Endpoint) ([]transport.Drift, error) {
	return nil, nil
}

func (s *sink) Close(context.Context) error { return nil }

// KeyPrefix: everything is stored in order.
func (s *sink) KeyPrefix(transport.Endpoint) bool { return true }

func (s *sink) Publish(_ context.Context, _ transport.Endpoint, ms []transport.Message, done func(int, messaging.PublishResult)) {
	if s.seen != nil {
		for i := range ms {
			s.seen(ms[i].ID)
		}
	}
	if s.delay > 0 {
		time.Sleep(s.delay) //nolint:forbidigo // this is what is measured: a broker that takes its time
	}
	for i := range ms {
		done(i, messaging.PublishResult{
			Completion: messaging.Confirmed,
			Evidence:   messaging.Evidence{Transmission: messaging.Transmitted, BrokerAccepted: true, Level: messaging.LevelReplicationOrPersistenceAck},
			Routing:    messaging.RoutingNotApplicable,
			Position:   &messaging.BrokerPosition{Broker: "sink", Text: "sink:bench/0/1234567"},
			Attempts:   1,
		})
	}
}
