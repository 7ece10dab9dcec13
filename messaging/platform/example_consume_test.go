package platform_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/backend-skeleton/relay/messaging"
	"github.com/backend-skeleton/relay/messaging/messagingtest"
	"github.com/backend-skeleton/relay/messaging/platform"
	"github.com/backend-skeleton/relay/messaging/transport"
)

// consumers is the file of the examples; a real one names brokers of kind kafka or rabbitmq.
const consumers = `
messaging:
  environment: local
  brokers:
    main: {kind: memory, seeds: ["memory:1"]}
  destinations:
    order-events: {broker: main, kind: EVENT_STREAM, physical: {topic: orders}, guarantees: {ordering: KEY}, outbox: {keyless: allow}}
    payments: {broker: main, kind: WORK_QUEUE, physical: {queue: payments}, grants: [DELAYED_PUBLISH]}
    quotes: {broker: main, kind: COMMAND, physical: {queue: quotes}, grants: [REQUEST_REPLY]}
  consumers:
    projection: {destination: order-events}
    ledger: {destination: payments, concurrency: 1, grants: [MANUAL_SETTLEMENT]}
    statistics: {destination: order-events, grants: [BATCH_CONSUME]}
    quoting: {destination: quotes, grants: [REQUEST_REPLY]}
`

// openExample opens a platform over a broker in memory.
func openExample(ctx context.Context) *platform.Platform {
	dir, err := os.MkdirTemp("", "relay")
	if err != nil {
		panic(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	name := dir + "/relay.yaml"
	if err := os.WriteFile(name, []byte(consumers), 0o600); err != nil {
		panic(err)
	}
	able := messagingtest.Everything
	able.DeduplicatedPublish = false
	memory := messagingtest.NewBroker(able)
	p, err := platform.Open(ctx, platform.Options{
		File: name, Env: []string{}, Producer: "orders", Logger: slog.New(slog.DiscardHandler),
		Adapters: map[string]platform.NewAdapter{"memory": func(context.Context, map[string]any) (transport.Adapter, error) {
			return memory.Adapter(), nil
		}},
	})
	if err != nil {
		panic(err)
	}
	return p
}

// runExample runs a platform; the function that it gives stops it in order: no new message, handlers to their end,
// settlements, connections.
func runExample(ctx context.Context, p *platform.Platform) (stop func() error) {
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- p.Run(ctx) }()
	return func() error {
		cancel()
		return <-ended
	}
}

// A consumer of the file with a typed handler. A route is one type and version; a consumer has as many as it needs.
func ExampleConsume() {
	ctx := context.Background()
	p := openExample(ctx)
	handled := make(chan string)
	_, err := platform.Consume(p, "projection", platform.On(OrdersCreated, messaging.HandlerFunc[OrderCreated](
		func(_ context.Context, d messaging.Delivery[OrderCreated]) messaging.Result {
			handled <- fmt.Sprint(d.Payload.OrderID, " attempt ", d.Meta.Attempt)
			return messaging.Success()
		})))
	if err != nil {
		fmt.Println(err)
		return
	}
	publisher, err := platform.NewPublisher(p, OrdersCreated)
	if err != nil {
		fmt.Println(err)
		return
	}
	stop := runExample(ctx, p)
	if _, err := publisher.Publish(ctx, OrdersCreated.New(OrderCreated{OrderID: "o-1"}), nil); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(<-handled)
	fmt.Println(stop())
	// Output:
	// o-1 attempt 1
	// <nil>
}

// A handler that settles by itself makes exactly one terminal call, and may wait for what is known of the settlement.
func ExampleOnManual() {
	ctx := context.Background()
	p := openExample(ctx)
	payments := messaging.Destination[OrderCreated]{Name: "payments", Type: "payment.due", Version: 1}
	settled := make(chan messaging.SettlementResult)
	_, err := platform.Consume(p, "ledger", platform.OnManual(payments, messaging.ManualHandlerFunc[OrderCreated](
		func(ctx context.Context, _ messaging.Delivery[OrderCreated], s messaging.SettlementController) {
			_ = s.Ack()
			result, _ := s.Wait(ctx) // UNKNOWN means that the message may come again
			settled <- result
		})))
	if err != nil {
		fmt.Println(err)
		return
	}
	later, err := platform.NewDelayedPublisher(p, payments)
	if err != nil {
		fmt.Println(err)
		return
	}
	stop := runExample(ctx, p)
	if _, err := later.PublishAfter(ctx, payments.New(OrderCreated{OrderID: "o-1"}), time.Millisecond, nil); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println((<-settled).Status)
	fmt.Println(stop())
	// Output:
	// SETTLED
	// <nil>
}

// A handler of several deliveries names the verdict of each; what it does not name is unfinished and comes again.
func ExampleOnBatch() {
	ctx := context.Background()
	p := openExample(ctx)
	counted := make(chan int64, 1)
	_, err := platform.Consume(p, "statistics", platform.OnBatch(OrdersCreated, messaging.BatchHandlerFunc[OrderCreated](
		func(_ context.Context, ds []messaging.Delivery[OrderCreated]) []messaging.ItemResult {
			results := make([]messaging.ItemResult, len(ds))
			for i, d := range ds {
				results[i] = messaging.ItemResult{Index: i, Result: messaging.Success()}
				counted <- d.Payload.Cents
			}
			return results
		})))
	if err != nil {
		fmt.Println(err)
		return
	}
	publisher, err := platform.NewPublisher(p, OrdersCreated)
	if err != nil {
		fmt.Println(err)
		return
	}
	stop := runExample(ctx, p)
	for cents := range 3 {
		e := OrdersCreated.New(OrderCreated{OrderID: "o-1", Cents: int64(cents)})
		e.OrderingKey = "o-1"
		if _, err := publisher.Publish(ctx, e, nil); err != nil {
			fmt.Println(err)
			return
		}
	}
	fmt.Println(<-counted, <-counted, <-counted)
	fmt.Println(stop())
	// Output:
	// 0 1 2
	// <nil>
}

// A request needs a deadline. The responder answers every copy of it; late and doubled replies are settled and counted.
func ExampleNewRequester() {
	ctx := context.Background()
	p := openExample(ctx)
	asked := messaging.Destination[OrderCreated]{Name: "quotes", Type: "quote.asked", Version: 1}
	given := messaging.Destination[int64]{Name: "quotes", Type: "quote.given", Version: 1}
	_, err := platform.Consume(p, "quoting", platform.OnRequest(asked, given,
		func(_ context.Context, d messaging.Delivery[OrderCreated]) (int64, error) {
			return 2 * d.Payload.Cents, nil
		}))
	if err != nil {
		fmt.Println(err)
		return
	}
	requester, err := platform.NewRequester(p, asked, given)
	if err != nil {
		fmt.Println(err)
		return
	}
	stop := runExample(ctx, p)
	soon, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	reply, err := requester.Request(soon, asked.New(OrderCreated{Cents: 21}))
	fmt.Println(reply.Payload, err)
	fmt.Println(stop())
	// Output:
	// 42 <nil>
	// <nil>
}
