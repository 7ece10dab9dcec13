// Package consuming is an example of a service that consumes: it sums up what each customer has ordered.
package consuming

import (
	"context"
	"sync"

	"github.com/backend-skeleton/relay/messaging"
	"github.com/backend-skeleton/relay/messaging/platform"
)

// OrderPlaced says that a customer has ordered something.
type OrderPlaced struct {
	Customer string `json:"customer"`
	Cents    int64  `json:"cents"`
}

// Orders is where they come from; each customer's in order, because the customer is the ordering key.
var Orders = messaging.Destination[OrderPlaced]{Name: "orders", Type: "order.placed", Version: 1}

// Revenue is the sum per customer. A real service keeps it in its database, in the transaction of client.InboxHandler, so
// that a message that comes twice counts once.
type Revenue struct {
	mu    sync.Mutex // guards what follows
	seen  map[messaging.MessageID]bool
	cents map[string]int64
}

// New registers the consumer "revenue" of the platform's file.
func New(p *platform.Platform) (*Revenue, error) {
	r := &Revenue{seen: map[messaging.MessageID]bool{}, cents: map[string]int64{}}
	_, err := platform.Consume(p, "revenue", platform.On(Orders, messaging.FromError(r.add)))
	return r, err
}

// add handles one order. Its error decides: a failure that cannot pass goes to the dead letters at once, any other error
// is tried again as the file says.
func (r *Revenue) add(_ context.Context, d messaging.Delivery[OrderPlaced]) error {
	if d.Payload.Cents < 0 {
		return messaging.NewFailure(messaging.CategoryPermanentBusiness, "NEGATIVE_ORDER", "an order costs nothing or more")
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.seen[d.ID] {
		r.seen[d.ID] = true
		r.cents[d.Payload.Customer] += d.Payload.Cents
	}
	return nil
}

// Of gives a customer's sum.
func (r *Revenue) Of(customer string) int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.cents[customer]
}
