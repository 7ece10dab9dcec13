package outbox

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/backend-skeleton/relay/internal/outbox/outboxdb"
)

// MaxListed is the most rows that one List gives.
const MaxListed = 10_000

// AllStates in the order in which a row goes through them.
func AllStates() []State {
	return []State{Pending, Scheduled, Held, RetryableFailure, Ambiguous, Parked, Published}
}

// Listed is a row as people see it: no payload, no headers, no keys.
type Listed struct {
	MessageID   uuid.UUID
	Destination string
	MessageType string
	// State is CLAIMED while a relay may have the row on the wire; Stored is what it is apart from that.
	State, Stored State
	CreatedAt     time.Time
	AvailableAt   time.Time
	NextAttemptAt *time.Time
	PublishedAt   *time.Time
	LeaseUntil    *time.Time // of the relay that has it
	Attempts      int
	// AmbiguousAttempts above 0 say that the row may have been delivered.
	AmbiguousAttempts int
	Skipped           bool // a parked head that lets its key pass
	LastOutcome       string
	Category          string
	Code              string
	Detail            string // fixed text and numbers
}

// List gives at most most rows of some states, of one destination or, with an empty name, of all. Its cost is bounded by
// the number of rows it gives, except for PUBLISHED rows of a destination that has few.
func (s *Store) List(ctx context.Context, destination string, states []State, most int) ([]Listed, error) {
	if most < 1 || most > MaxListed {
		return nil, fmt.Errorf("outbox: list rows: 1 to %d rows", MaxListed)
	}
	words := make([]string, len(states))
	for i, st := range states {
		words[i] = string(st)
	}
	var out []Listed
	err := s.do(ctx, "list rows", func(ctx context.Context, q *outboxdb.Queries) error {
		rows, err := q.ListRows(ctx, outboxdb.ListRowsParams{Destination: destination, States: words, Most: int32(most)})
		out = out[:0]
		for i := range rows {
			out = append(out, listed(&rows[i]))
		}
		return err
	})
	return out, err
}

func listed(r *outboxdb.ListRowsRow) Listed {
	return Listed{
		MessageID: r.MessageID, Destination: r.Destination, MessageType: r.MessageType,
		State: State(r.Status), Stored: State(r.StoredStatus),
		CreatedAt: r.CreatedAt, AvailableAt: r.AvailableAt, NextAttemptAt: r.NextAttemptAt, PublishedAt: r.PublishedAt,
		LeaseUntil: r.LeaseUntil, Attempts: int(r.Attempts), AmbiguousAttempts: int(r.AmbiguousAttempts), Skipped: r.SkippedAt != nil,
		LastOutcome: r.LastOutcome, Category: orEmpty(r.LastFailureCategory), Code: orEmpty(r.LastFailureCode), Detail: orEmpty(r.LastFailureDetail),
	}
}

func orEmpty(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}
