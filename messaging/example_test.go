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

// An allow-list of tenants stands in a destination's profile; the error never
// quotes the tenant that was refused.
func ExampleTenants() {
	tenants := messaging.NewTenants("acme", "globex")
	fmt.Println(tenants.Check("acme"))
	fmt.Println(tenants.Check("initech"))
	// Output:
	// <nil>
	// check tenant: validation: VALIDATION TENANT_NOT_ALLOWED: the tenant is not in the allow-list
}

// A batch error holds the error of each index, and is asked like any other.
func ExampleBatchError() {
	err := error(&messaging.BatchError{Items: map[int]error{
		3: messaging.PublishResult{
			Completion: messaging.Rejected, Failure: messaging.NewFailure(messaging.CategoryThrottled, messaging.CodeThrottled, "by a quota"),
		}.Err("order-events", messaging.LevelBrokerAck, nil),
	}})
	var failed *messaging.BatchError
	if errors.As(err, &failed) {
		for i := range failed.Items {
			fmt.Println("again, under the same id:", i)
		}
	}
	fmt.Println(errors.Is(err, messaging.ErrBackpressure))
	// Output:
	// again, under the same id: 3
	// true
}
