package transport_test

import (
	"errors"
	"fmt"
	"time"

	"github.com/backend-skeleton/relay/messaging"
	"github.com/backend-skeleton/relay/messaging/transport"
)

// An adapter carries headers as they are. What came from another system is foreign, which is no error of the adapter.
func ExampleDecodeHeaders() {
	id, err := messaging.ParseMessageID("019b76da-a800-7000-8000-000000000001")
	if err != nil {
		fmt.Println(err)
		return
	}
	headers := transport.EncodeHeaders(&transport.WireFields{
		ID: id, Type: "order.created", SchemaVersion: 1, Producer: "orders",
		ProducedAt: time.Date(2026, 1, 2, 3, 4, 5, 678900000, time.UTC), ContentType: "application/json", OrderingKey: "o-1",
	})
	for _, h := range headers {
		fmt.Printf("%s: %s\n", h.Name, h.Value)
	}
	fields, err := transport.DecodeHeaders(headers)
	fmt.Println(fields.ID == id, err)
	_, err = transport.DecodeHeaders([]transport.Header{{Name: "X-Request-Id", Value: []byte("7")}})
	fmt.Println(errors.Is(err, transport.ErrForeign))
	// Output:
	// msg.id: 019b76da-a800-7000-8000-000000000001
	// msg.type: order.created
	// msg.schema-version: 1
	// msg.producer: orders
	// msg.produced-at: 2026-01-02T03:04:05.678900Z
	// msg.content-type: application/json
	// msg.ordering-key: o-1
	// true <nil>
	// true
}
