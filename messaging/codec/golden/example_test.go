package golden_test

import (
	"context"
	"fmt"
	"testing/fstest"

	"github.com/backend-skeleton/relay/messaging"
	"github.com/backend-skeleton/relay/messaging/codec/golden"
	"github.com/backend-skeleton/relay/messaging/codec/json"
)

// A service's own test reads the golden messages of every version with the Go type of today.
func ExampleDecode() {
	schemas := fstest.MapFS{ // os.DirFS("schemas") in a service
		"order.created/v1/schema.json":        {Data: []byte(`{"type":"object"}`)},
		"order.created/v1/valid.json":         {Data: []byte(`{"orderId":"o-1"}`)},
		"order.created/v2/schema.json":        {Data: []byte(`{"type":"object"}`)},
		"order.created/v2/valid.json":         {Data: []byte(`{"orderId":"o-1","cents":"12"}`)},
		"order.created/v2/invalid/array.json": {Data: []byte(`[]`)},
	}
	versions, err := golden.Read(schemas, "order.created")
	if err != nil {
		fmt.Println(err)
		return
	}
	codec, err := json.New(json.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	type OrderCreated struct {
		OrderID string `json:"orderId"`
		Cents   int64  `json:"cents"` // version 2 writes it as text
	}
	created := messaging.Destination[OrderCreated]{Name: "order-events", Type: "order.created", Version: 2}
	for _, problem := range golden.Decode(context.Background(), codec, created, versions) {
		fmt.Println(problem.Version, problem.File)
	}
	// Output: 2 valid.json
}
