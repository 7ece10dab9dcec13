package transport_test

import (
	"testing"
	"time"

	"github.com/backend-skeleton/relay/messaging"
	"github.com/backend-skeleton/relay/messaging/transport"
)

// What an envelope's validation lets pass travels whole: its headers are read back as they were written.
func FuzzEnvelopeTravelsWhole(f *testing.F) {
	f.Add("order.created", 1, "orders", "c-1", "acme", "eu", "order-1", "application/json", "x-a", "1", int64(0), uint64(7))
	f.Add("a.b", 2147483647, "ü", "", "", "", "", "", "", "", int64(253402214399), uint64(0))
	f.Add("A", 0, "", "\x00", "\n", "\xff", "k", "t", "msg.id", "\r\n", int64(-62135596800), uint64(1))
	f.Fuzz(func(t *testing.T, typ string, version int, producer, correlation, tenant, partition, ordering, contentType, name, value string, occurred int64, seed uint64) {
		e := messaging.Envelope[int]{
			ID: messaging.NewMessageID(), Type: messaging.MessageType(typ), Version: messaging.SchemaVersion(version), Producer: messaging.ProducerID(producer),
			ProducedAt: time.Date(2026, 5, 1, 10, 0, 0, 123456000, time.UTC), Correlation: messaging.CorrelationID(correlation),
			Tenant: messaging.Tenant(tenant), PartitionKey: partition, OrderingKey: ordering, ContentType: contentType, Payload: 1,
		}
		if occurred != 0 {
			e.OccurredAt = time.Unix(occurred, 0).UTC()
		}
		if name != "" {
			headers, err := messaging.NewHeaders(map[string]string{name: value})
			if err != nil {
				return
			}
			e.Headers = headers
		}
		if seed%2 == 0 {
			e.Causation = messaging.CausationID{MessageID: messaging.NewMessageID()}
		} else {
			e.Trace = messaging.TraceContext{Parent: value, State: name, Baggage: value}.Sanitized()
		}
		if e.Validate(messaging.Profile{}) != nil {
			return
		}
		if contentType == "" {
			e.ContentType = "application/json" // the codec's
		}
		want := transport.WireFields{
			ID: e.ID, Type: e.Type, SchemaVersion: e.Version, Producer: e.Producer, ProducedAt: e.ProducedAt, ContentType: e.ContentType,
			OccurredAt: e.OccurredAt, Correlation: e.Correlation, Causation: e.Causation, Tenant: e.Tenant,
			PartitionKey: partition, OrderingKey: ordering, Trace: e.Trace, Headers: e.Headers,
		}
		headers := transport.EncodeHeaders(&want)
		got, err := transport.DecodeHeaders(headers)
		if err != nil {
			t.Fatalf("what was written cannot be read: %v", err)
		}
		if again := transport.EncodeHeaders(&got); !sameHeaders(headers, again) {
			t.Fatalf("%q came back as %q", headers, again)
		}
	})
}

func sameHeaders(a, b []transport.Header) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i].Name != b[i].Name || string(a[i].Value) != string(b[i].Value) {
			return false
		}
	}
	return true
}
