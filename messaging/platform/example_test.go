package platform_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"

	"github.com/backend-skeleton/relay/messaging"
	"github.com/backend-skeleton/relay/messaging/platform"
)

// OrderCreated is the payload of order.created, version 1.
type OrderCreated struct {
	OrderID string `json:"orderId"`
	Cents   int64  `json:"cents"`
}

// OrdersCreated names type, version and logical destination once; topic and exchange stand in the file.
var OrdersCreated = messaging.Destination[OrderCreated]{Name: "order-events", Type: "order.created", Version: 1}

// exampleOptions are what a test gives besides the file: a broker in memory instead of the file's.
func exampleOptions() platform.Options {
	dir, err := os.MkdirTemp("", "relay")
	if err != nil {
		panic(err)
	}
	name := dir + "/relay.yaml"
	if err := os.WriteFile(name, []byte(local), 0o600); err != nil {
		panic(err)
	}
	return platform.Options{
		File: name, Env: []string{}, Producer: "orders", Logger: slog.New(slog.DiscardHandler),
		Adapters: map[string]platform.NewAdapter{"memory": newDesk().make},
	}
}

// An ordinary service: a typed publisher, its verdict, and an ordered stop.
func Example() {
	ctx, stop := platform.Signals(context.Background())
	defer stop()
	p, err := platform.Open(ctx, exampleOptions())
	if err != nil {
		fmt.Println(err)
		return
	}
	publisher, err := platform.NewPublisher(p, OrdersCreated)
	if err != nil {
		fmt.Println(err)
		return
	}
	e := OrdersCreated.New(OrderCreated{OrderID: "o-1", Cents: 1250})
	e.OrderingKey = "o-1"
	result, err := publisher.Publish(ctx, e, nil)
	fmt.Println(result.Completion, result.Evidence.Level, err)
	stop() // as a signal would
	fmt.Println(p.Run(ctx))
	// Output:
	// CONFIRMED REPLICATION_OR_PERSISTENCE_ACK <nil>
	// <nil>
}

// A stream: the input is read as fast as the broker confirms.
func ExampleNewPublisher_stream() {
	ctx := context.Background()
	p, err := platform.Open(ctx, exampleOptions())
	if err != nil {
		fmt.Println(err)
		return
	}
	publisher, err := platform.NewPublisher(p, OrdersCreated)
	if err != nil {
		fmt.Println(err)
		return
	}
	input := []messaging.Envelope[OrderCreated]{
		OrdersCreated.New(OrderCreated{OrderID: "o-1"}), OrdersCreated.New(OrderCreated{OrderID: "o-2"}),
	}
	for result, err := range publisher.PublishSeq(ctx, slices.Values(input), nil) {
		fmt.Println(result.Completion, err)
	}
	fmt.Println(p.Close(ctx))
	// Output:
	// CONFIRMED <nil>
	// CONFIRMED <nil>
	// <nil>
}

// A batch needs a grant in the destination's profile; its result keeps the verdict of each index.
func ExampleNewBatchPublisher() {
	ctx := context.Background()
	p, err := platform.Open(ctx, exampleOptions())
	if err != nil {
		fmt.Println(err)
		return
	}
	mails := messaging.Destination[OrderCreated]{Name: "email-work", Type: "order.created", Version: 1}
	_, err = platform.NewBatchPublisher(p, mails)
	fmt.Println("without grant:", errors.Is(err, messaging.ErrCapabilityUnavailable))

	batch, err := platform.NewBatchPublisher(p, OrdersCreated)
	if err != nil {
		fmt.Println(err)
		return
	}
	wrong := OrdersCreated.New(OrderCreated{OrderID: "o-2"})
	wrong.Type = "order.paid"
	results, err := batch.PublishBatch(ctx, []messaging.Envelope[OrderCreated]{OrdersCreated.New(OrderCreated{OrderID: "o-1"}), wrong}, nil)
	var failed *messaging.BatchError
	if errors.As(err, &failed) {
		fmt.Println("failed:", len(failed.Items))
	}
	for _, r := range results {
		fmt.Println(r.Completion, r.Evidence.Transmission)
	}
	fmt.Println(p.Close(ctx))
	// Output:
	// without grant: true
	// failed: 1
	// CONFIRMED TRANSMITTED
	// REJECTED NOT_TRANSMITTED
	// <nil>
}
