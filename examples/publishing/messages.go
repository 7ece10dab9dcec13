package publishing

import "github.com/backend-skeleton/relay/messaging"

// OrderPlaced is the payload of order.placed, version 1.
type OrderPlaced struct {
	OrderID string `json:"orderId"`
	Cents   int64  `json:"cents"`
}

// Orders is where OrderPlaced goes; the topic stands in relay.yaml.
var Orders = messaging.Destination[OrderPlaced]{Name: "orders", Type: "order.placed", Version: 1}

// envelope is one order as a message: orders of one id keep their order.
func envelope(o OrderPlaced) messaging.Envelope[OrderPlaced] {
	e := Orders.New(o)
	e.OrderingKey = o.OrderID
	return e
}
