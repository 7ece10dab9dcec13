package messaging

import "time"

// Raw is the payload type of bytes that no codec touched. It needs a grant.
type Raw []byte

// Tombstone is the payload type of a Kafka null value. It needs a grant; a null
// payload of any other type is refused.
type Tombstone struct{}

// TraceContext is W3C trace context as text. It is carried untouched.
type TraceContext struct{ Parent, State, Baggage string }

// Destination is one Go type for one (type, version) on one logical destination.
// Several may share a Name.
type Destination[T any] struct {
	Name    DestinationName
	Type    MessageType
	Version SchemaVersion
}

// New makes an envelope with a fresh id and the type and version of d.
func (d Destination[T]) New(payload T) Envelope[T] {
	return Envelope[T]{ID: NewMessageID(), Type: d.Type, Version: d.Version, Payload: payload}
}

// Envelope is a message before it is encoded. Zero fields are filled by the
// platform; Producer, ProducedAt and Trace always are.
type Envelope[T any] struct {
	ID      MessageID
	Type    MessageType
	Version SchemaVersion
	// Producer is the service's own logical name, from its configuration.
	Producer ProducerID
	// ProducedAt is when the row was created, by the database clock.
	ProducedAt time.Time
	// OccurredAt is when the business fact happened: required for events.
	OccurredAt  time.Time
	Correlation CorrelationID
	Causation   CausationID
	// ContentType names a registered codec; empty means the profile's.
	ContentType string
	// PartitionKey spreads messages, OrderingKey orders them. Where both are set
	// the ordering key decides the record key.
	PartitionKey, OrderingKey string
	Tenant                    Tenant
	Trace                     TraceContext
	Headers                   Headers
	Payload                   T
}
