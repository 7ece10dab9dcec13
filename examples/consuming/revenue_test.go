package consuming_test

import (
	"context"
	"testing"
	"time"

	"github.com/backend-skeleton/relay/examples/consuming"
	"github.com/backend-skeleton/relay/messaging"
	"github.com/backend-skeleton/relay/messaging/messagingtest"
	"github.com/backend-skeleton/relay/messaging/platform"
	"github.com/backend-skeleton/relay/messaging/transport"
)

// The service's own relay.yaml over a broker in memory: a duplicate counts once, a bad order is a dead letter, what is no
// message is parked.
func TestRevenue(t *testing.T) {
	t.Parallel()
	able := messagingtest.Everything
	able.DeduplicatedPublish = false
	broker := messagingtest.NewBroker(able)
	p, err := platform.Open(t.Context(), platform.Options{
		File: "relay.yaml", Env: []string{}, Producer: "shop",
		Adapters: map[string]platform.NewAdapter{"kafka": func(context.Context, map[string]any) (transport.Adapter, error) {
			return broker.Adapter(), nil
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
	orders, err := platform.NewPublisher(p, consuming.Orders)
	if err != nil {
		t.Fatal(err)
	}
	revenue, err := consuming.New(p)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- p.Run(ctx) }()

	place := func(e messaging.Envelope[consuming.OrderPlaced]) {
		t.Helper()
		e.OrderingKey = e.Payload.Customer
		if _, err := orders.Publish(t.Context(), e, nil); err != nil {
			t.Fatal(err)
		}
	}
	first := consuming.Orders.New(consuming.OrderPlaced{Customer: "ann", Cents: 100})
	place(first)
	place(first)
	place(consuming.Orders.New(consuming.OrderPlaced{Customer: "ann", Cents: 20}))
	place(consuming.Orders.New(consuming.OrderPlaced{Customer: "bob", Cents: -1}))
	broker.Put("shop.orders.v1", transport.Message{Value: []byte("nobody knows me")})

	limited, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	err = broker.Await(limited, func() bool {
		return len(broker.Left("shop.orders.v1", "revenue")) == 0 && len(broker.Stored("shop.orders.dlq")) == 1 && len(broker.Stored("shop.orders.parking")) == 1
	})
	if err != nil {
		t.Fatal(err)
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if ann, bob := revenue.Of("ann"), revenue.Of("bob"); ann != 120 || bob != 0 {
		t.Errorf("ann %d, bob %d; want 120 and 0", ann, bob)
	}
}
