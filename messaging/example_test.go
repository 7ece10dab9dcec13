package messaging_test

import (
	"errors"
	"fmt"

	"github.com/backend-skeleton/relay/messaging"
)

func ExampleDestination_New() {
	type OrderCreated struct{ OrderID string }
	created := messaging.Destination[OrderCreated]{Name: "order-events", Type: "order.created", Version: 1}

	e := created.New(OrderCreated{OrderID: "o-1"})
	e.OrderingKey = "o-1"

	fmt.Println(e.Type, e.Version, e.OrderingKey, e.ID.IsZero())
	// Output: order.created 1 o-1 false
}

func ExampleNewHeaders() {
	h, err := messaging.NewHeaders(map[string]string{"X-Source": "web", "Channel": "app"})
	fmt.Println(err)
	for name, value := range h.All() {
		fmt.Println(name, value)
	}

	_, err = messaging.NewHeaders(map[string]string{"Authorization": "Bearer abc"})
	fmt.Println(err)
	// Output:
	// <nil>
	// channel app
	// x-source web
	// header rejected: header authorization is forbidden: credentials do not travel in headers
}

// A publish error says in two questions whether the message may have been
// stored, and why.
func ExamplePublishResult_Err() {
	result := messaging.PublishResult{
		Completion: messaging.Ambiguous,
		Failure:    messaging.NewFailure(messaging.CategoryAmbiguous, messaging.CodeConfirmTimeout, "no answer within 5s"),
	}
	err := result.Err("order-events", messaging.LevelBrokerAck, nil)
	switch {
	case errors.Is(err, messaging.ErrPublishAmbiguous):
		fmt.Println("may be stored: try again with the same id only")
	case errors.Is(err, messaging.ErrPublishRejected):
		fmt.Println("not stored")
	}
	fmt.Println(errors.Is(err, messaging.ErrPublishTimeout))
	// Output:
	// may be stored: try again with the same id only
	// true
}
