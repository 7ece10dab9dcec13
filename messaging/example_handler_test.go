package messaging_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/backend-skeleton/relay/messaging"
)

// A handler gives a verdict and never sees an acknowledgement: the platform settles afterwards.
func ExampleHandlerFunc() {
	type ship struct{ Parcels int }
	h := messaging.HandlerFunc[ship](func(_ context.Context, d messaging.Delivery[ship]) messaging.Result {
		switch {
		case d.Payload.Parcels == 0: // no attempt will change that
			return messaging.DeadLetter(*messaging.NewFailure(messaging.CategoryPermanentBusiness, "NOTHING_TO_SHIP", "the order is empty"))
		case d.Payload.Parcels > 100:
			return messaging.Retry(*messaging.NewFailure(messaging.CategoryThrottled, "WAREHOUSE_BUSY", "the warehouse takes no more now"))
		default:
			return messaging.Success()
		}
	})
	for _, n := range []int{1, 0, 101} {
		d := messaging.Delivery[ship]{}
		d.Payload.Parcels = n
		fmt.Println(h.Handle(context.Background(), d).Verdict())
	}
	fmt.Println(messaging.Result{}.Failure().Code) // no verdict is a failed attempt
	// Output:
	// SUCCESS
	// DEAD_LETTER
	// RETRY
	// NO_VERDICT
}

// A function that returns an error as a handler: a Failure in the chain decides, any other error is tried again.
func ExampleFromError() {
	for _, err := range []error{
		nil,
		errors.New("connection reset"),
		fmt.Errorf("charge: %w", messaging.NewFailure(messaging.CategoryPermanentBusiness, "CARD_EXPIRED", "the card is expired")),
	} {
		h := messaging.FromError(func(context.Context, messaging.Delivery[string]) error { return err })
		fmt.Println(h.Handle(context.Background(), messaging.Delivery[string]{}).Verdict())
	}
	// Output:
	// SUCCESS
	// RETRY
	// DEAD_LETTER
}

// Every error of the platform tells its kind by errors.Is, and by errors.As the failure with its stable code. Neither quotes a
// payload, key or credential.
func ExampleFailure() {
	err := error(&messaging.Error{
		Op: "publish", Kind: messaging.ErrTooLarge, Destination: "order-events",
		Failure: messaging.NewFailure(messaging.CategoryValidation, messaging.CodeTooLarge, "the payload has 9 bytes, the limit is 8"),
	})
	var f *messaging.Failure
	if errors.Is(err, messaging.ErrTooLarge) && errors.As(err, &f) {
		fmt.Println(f.Category, f.Code, f.Retryable)
	}
	// Output: VALIDATION TOO_LARGE false
}
