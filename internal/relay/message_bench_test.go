package relay

import (
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/backend-skeleton/relay/internal/outbox"
)

// BenchmarkMessage renders one row for the wire.
func BenchmarkMessage(b *testing.B) {
	key := "order-17"
	row := outbox.Row{
		MessageID: uuid.Must(uuid.NewV7()), MessageType: "bench.order.placed", SchemaVersion: 1, ContentType: "application/json",
		Producer: "bench", OrderingKey: &key, CreatedAt: time.Now(), Payload: make([]byte, 300),
		Headers: `{"x-lang": "de", "x-build": "2026.01.15-3", "x-shard": "00000017", "x-region": "eu-central-1"}`,
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, failure := message(&row); failure != nil {
			b.Fatal(failure)
		}
	}
}
