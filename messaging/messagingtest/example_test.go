package messagingtest_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/backend-skeleton/relay/messaging"
	"github.com/backend-skeleton/relay/messaging/messagingtest"
	"github.com/backend-skeleton/relay/messaging/transport"
)

// A lost acknowledgement: the broker has the message, and the caller cannot know it.
func ExampleBroker_Inject() {
	ctx := context.Background()
	broker := messagingtest.NewBroker(messagingtest.Everything)
	orders := transport.Endpoint{Name: "order-events", Physical: map[string]string{"topic": "orders"}}
	publisher, err := broker.Adapter().Publisher(ctx, []transport.Endpoint{orders})
	if err != nil {
		fmt.Println(err)
		return
	}
	undo := broker.Inject(messagingtest.Fault{Kind: messagingtest.Cut, Count: 1})
	defer undo()
	answer := make(chan messaging.PublishResult, 1)
	publisher.Publish(ctx, orders, []transport.Message{{ID: messaging.NewMessageID(), Value: []byte("{}"), NullKey: true}},
		func(_ int, r messaging.PublishResult) { answer <- r })
	fmt.Println((<-answer).Completion)
	fmt.Println(publisher.Close(ctx))
	// Output:
	// AMBIGUOUS
	// <nil>
}

// The test of an adapter: what the capabilities do not offer is listed as not applicable, everything else has to hold.
func ExampleRunContract() {
	_ = func(t *testing.T) {
		report := messagingtest.RunContract(t, messagingtest.MemorySubject(messagingtest.Everything, true))
		t.Log(report)
	}
}
