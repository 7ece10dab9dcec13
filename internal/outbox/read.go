package outbox

import (
	"context"
	"errors"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/backend-skeleton/relay/internal/outbox/outboxdb"
)

// The two kinds of a claimed row are one: same fields, same order. [scanRow] relies on it.
var _ = Row(outboxdb.ClaimPendingRow{})

// claimPending does what the generated method does, but puts the rows straight into their place: this is the one
// statement that brings rows by the thousand.
func (s *Store) claimPending(ctx context.Context, p outboxdb.ClaimPendingParams) (out []Row, err error) {
	q := outboxdb.New(reader{pipeline: s.pipe, read: func(rows pgx.Rows) error {
		fields := make([]any, 0, 32)
		for rows.Next() {
			if len(out) == cap(out) { // one row is as common as a thousand
				out = slices.Grow(out, min(7*len(out)+8, 1000))
			}
			out = append(out, Row{})
			if fields, err = scanRow(rows, &out[len(out)-1], fields[:0]); err != nil {
				return err
			}
		}
		return rows.Err()
	}})
	if _, err = q.ClaimPending(ctx, p); errors.Is(err, errRead) {
		return out, nil
	}
	return nil, err
}

func scanRow(rows pgx.Rows, r *Row, fields []any) ([]any, error) {
	fields = append(fields, &r.Seq, &r.MessageID, &r.Lane, &r.MessageType, &r.SchemaVersion, &r.ContentType, &r.Producer,
		&r.PartitionKey, &r.OrderingKey, &r.CorrelationID, &r.CausationID, &r.Tenant, &r.Traceparent, &r.Tracestate, &r.Baggage,
		&r.SchemaRef, &r.ClaimCheck, &r.RedriveID, &r.RedriveCount, &r.Headers, &r.Payload, &r.OccurredAt, &r.CreatedAt,
		&r.Attempts, &r.AmbiguousAttempts, &r.Version, &r.Status)
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
