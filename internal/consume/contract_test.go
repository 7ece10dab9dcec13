package consume_test

import (
	"context"
	"testing"
	"time"

	"github.com/backend-skeleton/relay/internal/consume"
	"github.com/backend-skeleton/relay/messaging"
	"github.com/backend-skeleton/relay/messaging/messagingtest"
	"github.com/backend-skeleton/relay/messaging/transport"
)

// The contract of adapters, with handlers run by this runtime instead of the suite's small one, on every kind of broker
// whose deliveries it settles.
func TestContract(t *testing.T) {
	t.Parallel()
	for kind, row := range map[string]struct {
		able   messaging.Capabilities
		topics bool
	}{
		"kafka": {messaging.Capabilities{
			BrokerAcknowledgement: true, ReplicationOrPersistenceEvidence: true, BatchSettlement: true, OrderedStream: true,
			KeyedOrdering: true, Replay: true, BrokerTransaction: true,
		}, true},
		"rabbitmq": {messaging.Capabilities{
			BrokerAcknowledgement: true, ReplicationOrPersistenceEvidence: true, PerMessageSettlement: true, KeyedOrdering: true,
			DelayedDelivery: true, NativeDeadLetter: true,
		}, false},
		"everything": {messagingtest.Everything, true},
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			memory := messagingtest.MemorySubject(row.able, row.topics)
			report := messagingtest.RunContract(t, func(tb testing.TB) messagingtest.Subject {
				s := memory(tb)
				s.Quiet, s.Runtime = 50*time.Millisecond, consumer
				return s
			})
			if len(report.Proved) != 21 || len(report.Failed)+len(report.NotProved) > 0 {
				t.Errorf("%d of 21 cases are proved:\n%s", len(report.Proved), report)
			}
		})
	}
}

// consumer runs the suite's consumers.
func consumer(ctx context.Context, c messagingtest.Consuming) (func(context.Context) error, error) {
	p, err := c.Adapter.Publisher(ctx, []transport.Endpoint{c.DeadLetter, c.Parking})
	if err != nil {
		return nil, err
	}
	settings := consume.Config{
		Name: c.Subscription.Consumer, Endpoint: c.Subscription.Endpoint, Adapter: c.Adapter, Publisher: p, Delivery: messaging.AtLeastOnce,
		Ordering: messaging.OrderingNone, Concurrency: c.Concurrency, Prefetch: c.Subscription.Prefetch,
		Policy: messaging.RetryPolicy{
			Mode: messaging.ModePausePartition, MaxAttempts: c.MaxAttempts, InitialDelay: time.Millisecond, MaxDelay: 5 * time.Millisecond, Multiplier: 2,
		},
		DeadLetters: &c.DeadLetter,
		Parking: map[messaging.Parking]transport.Endpoint{
			messaging.ParkingSchema: c.Parking, messaging.ParkingSecurity: c.Parking, messaging.ParkingManualReview: c.Parking,
		},
		Codecs: []messaging.Codec{c.Codec},
		Types:  map[messaging.MessageType]messaging.TypeRule{messagingtest.ItemType: {Versions: []messaging.SchemaVersion{1}}},
		Routes: []consume.Route{consume.On(messaging.Destination[messagingtest.Item]{
			Name: c.Subscription.Endpoint.Name, Type: messagingtest.ItemType, Version: 1,
		}, c.Handler)},
	}
	if c.Ordered {
		settings.Ordering = messaging.OrderingKey
	}
	k, err := consume.New(settings)
	if err != nil {
		return nil, err
	}
	if err := k.Start(ctx); err != nil {
		return nil, err
	}
	return k.Stop, nil
}
