package outbox

import (
	"context"
	"errors"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/backend-skeleton/relay/internal/outbox/outboxdb"
)

// A claimed row is one with the generated kinds: same fields, same order. Those of an ordered lane have its changes
// besides. [scanRow] relies on it.
var _ = Row(outboxdb.ClaimDeferredRow{})

// claimed does what the generated method does that query calls, but puts the rows straight into their place: these
// statements bring rows by the thousand.
func (s *Store) claimed(claims []LaneClaim, query func(*outboxdb.Queries) error) (out []Row, err error) {
	q := outboxdb.New(reader{pipeline: s.pipe, read: func(rows pgx.Rows) error {
		fields, changes, next := make([]any, 0, 32), int64(0), -1
		for rows.Next() {
			if len(out) == cap(out) { // one row is as common as a thousand
				out = slices.Grow(out, min(7*len(out)+8, 1000))
			}
			out = append(out, Row{})
			r := &out[len(out)-1]
			if fields, err = scanRow(rows, r, &changes, fields[:0]); err != nil {
				return err
			}
			if next < 0 || claims[next].Lane != r.Lane {
				next = slices.IndexFunc(claims, func(c LaneClaim) bool { return c.Lane == r.Lane })
			}
			if next >= 0 {
				claims[next].Changes = changes
			}
		}
		return rows.Err()
	}})
	if err = query(q); errors.Is(err, errRead) {
		return out, nil
	}
	return nil, err
}

func scanRow(rows pgx.Rows, r *Row, changes *int64, fields []any) ([]any, error) {
	fields = append(fields, &r.Seq, &r.MessageID, &r.Lane, &r.MessageType, &r.SchemaVersion, &r.ContentType, &r.Producer,
		&r.PartitionKey, &r.OrderingKey, &r.CorrelationID, &r.CausationID, &r.Tenant, &r.Traceparent, &r.Tracestate, &r.Baggage,
		&r.SchemaRef, &r.ClaimCheck, &r.RedriveID, &r.RedriveCount, &r.Headers, &r.Payload, &r.OccurredAt, &r.CreatedAt,
		&r.Attempts, &r.AmbiguousAttempts, &r.Version, &r.Status, changes)
	return fields, rows.Scan(fields...)
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
