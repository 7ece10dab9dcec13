package jsonschema_test

import (
	"context"
	"errors"
	"fmt"
	"testing/fstest"

	"github.com/backend-skeleton/relay/messaging"
	"github.com/backend-skeleton/relay/messaging/codec/jsonschema"
)

// A payload that breaks its schema is refused before it is sent, and parked where it is consumed. The error names the place
// in the schema and never the value.
func Example() {
	c, err := jsonschema.New(jsonschema.Config{
		Schemas: fstest.MapFS{"order.created/v1/schema.json": {Data: []byte(
			`{"type":"object","properties":{"cents":{"type":"integer","minimum":1}},"required":["cents"]}`)}},
		Types: map[messaging.MessageType]string{"order.created": "order.created"},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, cents := range []int{1250, 0} {
		data, _, err := c.Encode(context.Background(), "order.created", 1, map[string]int{"cents": cents})
		fmt.Println(string(data), errors.Is(err, messaging.ErrSchemaIncompatible))
	}
	// Output:
	// {"cents":1250} false
	//  true
}
