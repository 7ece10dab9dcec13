package outbox

import (
	"context"
	"errors"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/backend-skeleton/relay/internal/outbox/outboxdb"
)

// A claimed row is one with the generated kinds: same fields, same order. A claim of PENDING rows has its lane's changes
// besides. [scanner] relies on it.
var _ = Row(outboxdb.ClaimRunsRow{})

// claimPending does what the generated method does, but puts the rows straight into their place: this is the one
// statement that brings rows by the thousand.
func (s *Store) claimPending(ctx context.Context, p outboxdb.ClaimPendingParams, claims []LaneClaim) (out []Row, err error) {
	q := outboxdb.New(reader{pipeline: s.pipe, read: func(rows pgx.Rows) error {
		scan, changes, next := scanner{}, int64(0), 0
		for rows.Next() {
			if len(out) == cap(out) { // one row is as common as a thousand
				out = slices.Grow(out, min(7*len(out)+8, 1000))
			}
			out = append(out, Row{})
			r := &out[len(out)-1]
			if err = scan.row(rows, r, &changes); err != nil {
				return err
			}
			for next < len(claims) && claims[next].Lane != r.Lane { // both go by lane
				next++
			}
			if next < len(claims) {
				claims[next].Changes = changes
			}
		}
		return rows.Err()
	}})
	if _, err = q.ClaimPending(ctx, p); errors.Is(err, errRead) {
		return out, nil
	}
	return nil, err
}

// scanner reads rows, most of which have some texts in common.
type scanner struct {
	fields                                     []any
	messageType, contentType, producer, status repeated
}

func (s *scanner) row(rows pgx.Rows, r *Row, changes *int64) error {
	s.messageType.into, s.contentType.into, s.producer.into, s.status.into = &r.MessageType, &r.ContentType, &r.Producer, &r.Status
	s.fields = append(s.fields[:0], &r.Seq, &r.MessageID, &r.Lane, &s.messageType, &r.SchemaVersion, &s.contentType, &s.producer,
		&r.PartitionKey, &r.OrderingKey, &r.CorrelationID, &r.CausationID, &r.Tenant, &r.Traceparent, &r.Tracestate, &r.Baggage,
		&r.SchemaRef, &r.ClaimCheck, &r.RedriveID, &r.RedriveCount, &r.Headers, &r.Payload, &r.OccurredAt, &r.CreatedAt,
		&r.Attempts, &r.AmbiguousAttempts, &r.Version, &s.status, changes)
	return rows.Scan(s.fields...)
}

// errRead stands for the rows that a reader has read already.
var errRead = errors.New("the rows were read")

// reader hands the rows of a generated query to read.
type reader struct {
	pipeline
	read func(pgx.Rows) error
}

func (r reader) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	rows, err := r.pipeline.Query(ctx, sql, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	if err := r.read(rows); err != nil {
		return nil, err
	}
	return nil, errRead
}
