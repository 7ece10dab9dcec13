package jsonschema_test

import (
	"context"
	"testing"

	"github.com/backend-skeleton/relay/messaging"
	"github.com/backend-skeleton/relay/messaging/codec/json"
	"github.com/backend-skeleton/relay/messaging/codec/jsonschema"
)

// What the schema costs at an insert or a publish, above plain JSON.
func BenchmarkEncode(b *testing.B) {
	plain, err := json.New(json.Config{})
	if err != nil {
		b.Fatal(err)
	}
	held, err := jsonschema.New(jsonschema.Config{Schemas: schemas(), Types: map[messaging.MessageType]string{"order.created": "schemas/order.created"}})
	if err != nil {
		b.Fatal(err)
	}
	value := order{ID: "1", Cents: 1250, Labels: map[string]string{"a": "1", "b": "2"}}
	for name, codec := range map[string]messaging.Codec{"json": plain, "with schema": held} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, _, err := codec.Encode(context.Background(), created.Type, 2, value); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
