package transport

import (
	"time"

	"github.com/backend-skeleton/relay/messaging"
)

// The header names of the wire contract. They are the same on every broker, from
// the relay, from direct publishing and from change data capture. Names are
// lower case; values are UTF-8 text; an absent value is an absent header.
const (
	HeaderID            = "msg.id"             // canonical text of the UUIDv7
	HeaderType          = "msg.type"           //
	HeaderSchemaVersion = "msg.schema-version" // decimal, from 1
	HeaderProducer      = "msg.producer"       //
	HeaderProducedAt    = "msg.produced-at"    // created_at of the outbox row
	HeaderContentType   = "msg.content-type"   //

	HeaderOccurredAt   = "msg.occurred-at"
	HeaderCorrelation  = "msg.correlation-id"
	HeaderCausation    = "msg.causation-id"
	HeaderTenant       = "msg.tenant"
	HeaderPartitionKey = "msg.partition-key"
	HeaderOrderingKey  = "msg.ordering-key"
	HeaderSchemaRef    = "msg.schema-ref"  // compact JSON
	HeaderClaimCheck   = "msg.claim-check" // compact JSON

	HeaderRedriveID    = "msg.redrive-id"
	HeaderRedriveCount = "msg.redrive-count" // absent until redriven
	HeaderReplayID     = "msg.replay-id"

	// What a retry stage, a dead-letter queue or a parking place is told.
	HeaderForConsumer    = "msg.for-consumer"     // every other consumer settles the copy without its handler
	HeaderRetryAttempt   = "msg.retry-attempt"    // attempts so far
	HeaderRetryDueAt     = "msg.retry-due-at"     // written at the hand-over
	HeaderFirstFailureAt = "msg.first-failure-at" // written once
	HeaderLastFailureAt  = "msg.last-failure-at"  //
	HeaderDLQSource      = "msg.dlq-source"       // destination, "/", consumer; written once
	HeaderDLQPosition    = "msg.dlq-position"     // written once
	HeaderDLQAttempts    = "msg.dlq-attempts"     //
	HeaderDLQCategory    = "msg.dlq-category"     //
	HeaderDLQCode        = "msg.dlq-code"         //

	HeaderTraceParent = "traceparent"
	HeaderTraceState  = "tracestate"
	HeaderBaggage     = "baggage"
)

// timeLayout is RFC 3339 in UTC with exactly the six fractional digits that
// PostgreSQL keeps.
const timeLayout = "2006-01-02T15:04:05.000000Z"

// WireFields are the fields of a message that travel as headers. A zero field is
// absent on the wire.
type WireFields struct {
	// These six are required on the wire, see [WireFields.Check].
	ID            messaging.MessageID
	Type          messaging.MessageType
	SchemaVersion messaging.SchemaVersion
	Producer      messaging.ProducerID
	ProducedAt    time.Time
	ContentType   string

	OccurredAt                time.Time
	Correlation               messaging.CorrelationID
	Causation                 messaging.CausationID
	Tenant                    messaging.Tenant
	PartitionKey, OrderingKey string
	// SchemaReference and ClaimCheck are the header's own bytes: compact JSON that
	// is carried as it was written.
	SchemaReference, ClaimCheck string

	RedriveID    messaging.RedriveID
	RedriveCount int
	ReplayID     messaging.ReplayID

	Trace   messaging.TraceContext
	Headers messaging.Headers
}

// Check names the first required field that is missing, as a
// [messaging.ErrValidation].
func (f *WireFields) Check() error {
	switch {
	case f.ID.IsZero():
		return absent(HeaderID)
	case f.Type == "":
		return absent(HeaderType)
	case f.SchemaVersion < 1:
		return absent(HeaderSchemaVersion)
	case f.Producer == "":
		return absent(HeaderProducer)
	case f.ProducedAt.IsZero():
		return absent(HeaderProducedAt)
	case f.ContentType == "":
		return absent(HeaderContentType)
	}
	return nil
}

// RecordKey is the key of the record: the ordering key, else the partition key,
// else null. RabbitMQ has no record key; Kafka chooses the partition by it.
func RecordKey(orderingKey, partitionKey string) (key []byte, null bool) {
	switch {
	case orderingKey != "":
		return []byte(orderingKey), false
	case partitionKey != "":
		return []byte(partitionKey), false
	default:
		return nil, true
	}
}
