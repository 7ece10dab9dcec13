package outbox_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/backend-skeleton/relay/internal/outbox"
	"github.com/backend-skeleton/relay/messaging"
)

// Outcomes of every kind, rows taken by their ids among them, are one transaction in one round trip.
func TestOutcomesAreOneRoundTrip(t *testing.T) {
	t.Parallel()
	b := setup(t, time.Minute)
	sent := &roundTrips{}
	conf := b.db.Config().Copy()
	conf.ConnConfig.Tracer = sent
	pool, err := pgxpool.NewWithConfig(t.Context(), conf)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	s := outbox.New(pool, outbox.Config{LeaseTTL: time.Minute})
	for range 30 {
		b.add(t, "")
	}
	leases := b.takeAll(t, s, false)
	outcomes := []outbox.Outcome{}
	for i, row := range b.claim(t, s, leases) {
		o := outcome(row, epochOf(leases, row.Lane), outbox.Published, confirmed())
		if i%3 > 0 {
			o = outcome(row, epochOf(leases, row.Lane), outbox.RetryableFailure, failed(messaging.Rejected, messaging.CodeNacked))
		}
		o.FromIDs = i%3 == 2
		outcomes = append(outcomes, o)
	}
	if len(outcomes) != 30 {
		t.Fatalf("%d rows were claimed, want 30", len(outcomes))
	}
	sent.n.Store(0)
	if missed, err := s.Record(t.Context(), outcomes); err != nil || len(missed) > 0 {
		t.Fatalf("missed %v, %v", missed, err)
	}
	if n := sent.n.Load(); n != 1 {
		t.Errorf("%d round trips, want 1", n)
	}
}

// roundTrips counts batches and single statements.
type roundTrips struct{ n atomic.Int64 }

func (r *roundTrips) count(ctx context.Context) context.Context {
	r.n.Add(1)
	return ctx
}

func (r *roundTrips) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	return r.count(ctx)
}
func (*roundTrips) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}
func (r *roundTrips) TraceBatchStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceBatchStartData) context.Context {
	return r.count(ctx)
}
func (*roundTrips) TraceBatchQuery(context.Context, *pgx.Conn, pgx.TraceBatchQueryData) {}
func (*roundTrips) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData)     {}
