package bench

import (
	"context"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// statements counts those of a pool by their names.
type statements struct {
	mu sync.Mutex // guards n
	n  map[string]int
}

func (s *statements) count(sql string) {
	name, named := strings.CutPrefix(sql, "-- name: ")
	if !named {
		return
	}
	name, _, _ = strings.Cut(name, " ")
	s.mu.Lock()
	defer s.mu.Unlock()
	s.n[name]++
}

func (s *statements) TraceQueryStart(ctx context.Context, _ *pgx.Conn, d pgx.TraceQueryStartData) context.Context {
	s.count(d.SQL)
	return ctx
}
func (*statements) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}
func (*statements) TraceBatchStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceBatchStartData) context.Context {
	return ctx
}

func (s *statements) TraceBatchQuery(_ context.Context, _ *pgx.Conn, d pgx.TraceBatchQueryData) {
	s.count(d.SQL)
}
func (*statements) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData) {}

// What a row costs that no machine changes: how many statements move a backlog, and how often memory is taken for a row on its
// way from the claim to the recorded outcome, the database driver included. Not parallel, because it counts for the process.
func TestWhatARowCosts(t *testing.T) {
	database := os.Getenv("PG_URL_17")
	if database == "" {
		if os.Getenv("REQUIRE_SERVICES") == "1" {
			t.Fatal("PG_URL_17 is not set")
		}
		t.Skip("not proved: statements and allocations of a drain; PG_URL_17 is not set")
	}
	p, err := newPlace(t.Context(), database, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.drop(); err != nil {
			t.Error(err)
		}
	})
	const rows = 20_000
	o := Options{Rows: rows}
	o.setDefaults()
	b := &bench{o: o, place: p, report: newReport(&o)}
	for _, c := range []struct {
		name        string
		key         keys
		statements  int     // of a claim and of an outcome each, at most: 200 rows in one
		allocations float64 // a row, at most
	}{
		{name: "without keys", key: keyless, statements: rows / 200, allocations: 13},
		{name: "100 keys", key: among(100), statements: rows / 200, allocations: 17},
	} {
		t.Run(c.name, func(t *testing.T) {
			if err := p.clear(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := p.load(t.Context(), rows, []string{"bench.orders"}, c.key, 0); err != nil {
				t.Fatal(err)
			}
			seen := &statements{n: map[string]int{}}
			conf := p.conf.Copy()
			conf.MaxConns, conf.ConnConfig.Tracer = 8, seen
			pool, err := pgxpool.NewWithConfig(t.Context(), conf)
			if err != nil {
				t.Fatal(err)
			}
			defer pool.Close()
			cell := b.plain(Setting{Batch: 1000, InFlight: 1000}, &sink{})
			cell.rows = rows
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			if _, err := b.measure(t.Context(), cell, pool); err != nil {
				t.Fatal(err)
			}
			runtime.ReadMemStats(&after)
			allocations := float64(after.Mallocs-before.Mallocs) / rows
			bytes := float64(after.TotalAlloc-before.TotalAlloc) / rows
			claims, outcomes := seen.n["ClaimPending"], seen.n["RecordConfirmed"]
			t.Logf("%d claims, %d outcomes, %.2f allocations and %.0f bytes a row", claims, outcomes, allocations, bytes)
			if claims == 0 || outcomes == 0 || claims > c.statements || outcomes > c.statements {
				t.Errorf("%d claims and %d outcomes for %d rows, want at most %d", claims, outcomes, rows, c.statements)
			}
			if allocations > c.allocations {
				t.Errorf("%.2f allocations a row, want at most %.0f", allocations, c.allocations)
			}
		})
	}
}
