package outbox

import (
	"time"

	"github.com/google/uuid"
)

// State of a row, as stored. CLAIMED exists in the view alone: it follows from lane and window.
type State string

// The states.
const (
	Pending          State = "PENDING"           // never offered to a broker
	Scheduled        State = "SCHEDULED"         // the same, not due yet
	RetryableFailure State = "RETRYABLE_FAILURE" // refused for now
	Ambiguous        State = "AMBIGUOUS"         // may have been delivered
	Held             State = "HELD"              // never offered, waits behind the head of its key
	Published        State = "PUBLISHED"         // confirmed; final
	Parked           State = "PARKED"            // waits for an operator
)

// Row is a claimed row: what is published and what its outcome needs. The fields follow the claim's columns.
type Row struct {
	Seq               int64
	MessageID         uuid.UUID
	Lane              int32
	MessageType       string
	SchemaVersion     int32
	ContentType       string
	Producer          string
	PartitionKey      *string
	OrderingKey       *string
	CorrelationID     *string
	CausationID       *uuid.UUID
	Tenant            *string
	Traceparent       *string
	Tracestate        *string
	Baggage           *string
	SchemaRef         *string
	ClaimCheck        *string
	RedriveID         *uuid.UUID
	RedriveCount      *int32
	Headers           string
	Payload           []byte
	OccurredAt        *time.Time
	CreatedAt         time.Time
	Attempts          int32
	AmbiguousAttempts int32
	Version           int32
	Status            string
}

// Key is the ordering key, "" without one.
func (r *Row) Key() string {
	if r.OrderingKey == nil {
		return ""
	}
	return *r.OrderingKey
}

// Size is what the row holds in memory, roughly, in bytes.
func (r *Row) Size() int64 { return int64(len(r.Payload) + len(r.Headers) + 512) }
