package relay

import (
	"fmt"
	"time"

	"github.com/backend-skeleton/relay/internal/outbox"
	"github.com/backend-skeleton/relay/messaging"
	"github.com/backend-skeleton/relay/messaging/transport"
)

// message renders a row for the wire. The payload is not decoded; headers only as far as each is one of its own on
// the wire. What the database could not refuse and the wire cannot carry is the row's own failure.
func message(r *outbox.Row) (transport.Message, *messaging.Failure) {
	id, err := messaging.MessageIDFromUUID(r.MessageID)
	if err != nil {
		return transport.Message{}, invalid(messaging.CodeInvalidMessage, "the id is not a UUIDv7")
	}
	f := transport.WireFields{
		ID:              id,
		Type:            messaging.MessageType(r.MessageType),
		SchemaVersion:   messaging.SchemaVersion(r.SchemaVersion),
		Producer:        messaging.ProducerID(r.Producer),
		ProducedAt:      r.CreatedAt,
		ContentType:     r.ContentType,
		Correlation:     messaging.CorrelationID(text(r.CorrelationID)),
		Tenant:          messaging.Tenant(text(r.Tenant)),
		PartitionKey:    text(r.PartitionKey),
		OrderingKey:     text(r.OrderingKey),
		SchemaReference: text(r.SchemaRef),
		ClaimCheck:      text(r.ClaimCheck),
		Trace:           messaging.TraceContext{Parent: text(r.Traceparent), State: text(r.Tracestate), Baggage: text(r.Baggage)},
	}
	if r.OccurredAt != nil {
		f.OccurredAt = *r.OccurredAt
	}
	if r.CausationID != nil {
		cause, err := messaging.MessageIDFromUUID(*r.CausationID)
		if err != nil {
			return transport.Message{}, invalid(messaging.CodeInvalidMessage, "the causation id is not a UUIDv7")
		}
		f.Causation = messaging.CausationID{MessageID: cause}
	}
	if r.RedriveID != nil {
		f.RedriveID = messaging.RedriveID(*r.RedriveID)
	}
	if r.RedriveCount != nil {
		f.RedriveCount = int(*r.RedriveCount)
	}
	if r.Headers != "{}" {
		if err := f.Headers.UnmarshalJSON([]byte(r.Headers)); err != nil {
			return transport.Message{}, invalid(messaging.CodeHeaderRejected, "the headers break a rule of the platform")
		}
	}
	if err := f.Check(); err != nil {
		return transport.Message{}, invalid(messaging.CodeInvalidMessage, "a required field is missing")
	}
	m := transport.Message{ID: id, Value: r.Payload, Header: transport.EncodeHeaders(&f)}
	m.Key, m.NullKey = transport.RecordKey(f.OrderingKey, f.PartitionKey)
	return m, nil
}

func text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

func invalid(code, message string) *messaging.Failure {
	return messaging.NewFailure(messaging.CategoryValidation, code, message)
}

// refuse is what the profile says of a row before anything is rendered.
func (d *Destination) refuse(r *outbox.Row) *messaging.Failure {
	switch {
	case d.Ordered && !d.Keyless && r.OrderingKey == nil:
		return invalid(messaging.CodeKeylessOnKey, "the destination is ordered by key and the row has none")
	case int64(len(r.Payload)) > d.MaxBytes:
		return invalid(messaging.CodeTooLarge, fmt.Sprintf("the payload has %d bytes, the limit is %d", len(r.Payload), d.MaxBytes))
	case d.Types != nil && !d.Types[messaging.MessageType(r.MessageType)]:
		return invalid(messaging.CodeTypeNotInCatalogue, "the catalogue does not have the message type for this destination")
	}
	return nil
}

// notSent is the verdict on a row that did not leave this process.
func notSent(f *messaging.Failure) messaging.PublishResult {
	return messaging.PublishResult{
		Completion: messaging.Rejected,
		Evidence:   messaging.Evidence{Transmission: messaging.NotTransmitted, Level: messaging.LevelNone},
		Routing:    messaging.RoutingNotApplicable,
		Elapsed:    time.Duration(0),
		Failure:    f,
	}
}
