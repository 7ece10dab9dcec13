package outbox

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/backend-skeleton/relay/internal/dbtest"
	"github.com/backend-skeleton/relay/internal/outbox/outboxdb"
)

// statsFixture fills a table with rows of every state, for two registered destinations and one that nobody knows.
func statsFixture(t *testing.T) (*dbtest.DB, *Store) {
	t.Helper()
	db := dbtest.New(t)
	s := New(db.As(t, dbtest.Worker), Config{Name: "a", LeaseTTL: 10 * time.Second})
	if err := s.Register(t.Context(), []string{"orders", "mails"}); err != nil {
		t.Fatal(err)
	}
	_, err := db.Exec(t.Context(), `
		select messaging_outbox_add(d, 'order.created', 'shop', '{}', ordering_key => 'k' || i % 7, available_at => case when i % 11 = 0 then now() + interval '1 day' end)
		  from unnest('{orders,mails,nobodys}'::text[]) as d, generate_series(1, 200) as i`)
	if err != nil {
		t.Fatal(err)
	}
	_, err = db.Exec(t.Context(), `
		update messaging_outbox set status = s.status::messaging_outbox_state, created_at = now() - interval '1 hour',
		  available_at = now() - interval '1 hour',
		  next_attempt_at = case when s.due then now() + interval '1 hour' end, skipped_at = case when s.skipped then now() end,
		  ambiguous_attempts = case when s.status = 'AMBIGUOUS' then 1 else 0 end,
		  published_at = case when s.status = 'PUBLISHED' then now() end
		 from (values (1, 'RETRYABLE_FAILURE', true, false), (2, 'RETRYABLE_FAILURE', false, false), (3, 'AMBIGUOUS', true, false),
		              (4, 'AMBIGUOUS', false, false), (5, 'HELD', false, false), (6, 'PUBLISHED', false, false),
		              (7, 'PARKED', false, false), (8, 'PARKED', false, true)) as s(n, status, due, skipped)
		where seq % 10 = s.n and messaging_outbox.status = 'PENDING'`)
	if err != nil {
		t.Fatal(err)
	}
	return db, s
}

// TestStatsCountsEveryRowOnce compares with the simple count that would read the whole table.
func TestStatsCountsEveryRowOnce(t *testing.T) {
	t.Parallel()
	db, s := statsFixture(t)
	got, err := s.Stats(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]map[State]int64{}
	rows, err := db.Query(t.Context(), `select case when destination = 'nobodys' then '' else destination end, status::text, count(*) from messaging_outbox group by 1, 2`)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var destination, status string
		var n int64
		if err := rows.Scan(&destination, &status, &n); err != nil {
			t.Fatal(err)
		}
		if want[destination] == nil {
			want[destination] = map[State]int64{}
		}
		want[destination][State(status)] = n
	}
	if len(want["orders"]) != 7 {
		t.Fatalf("the fixture has %v, want every state", want["orders"])
	}
	if len(got.Destinations) != 3 || time.Since(got.AsOf).Abs() > time.Minute {
		t.Errorf("%d destinations as of %v", len(got.Destinations), got.AsOf)
	}
	for _, d := range got.Destinations {
		if !maps.Equal(d.Rows, want[d.Destination]) {
			t.Errorf("%q: %v, want %v", d.Destination, d.Rows, want[d.Destination])
		}
		if d.Oldest < 59*time.Minute || d.Oldest > 61*time.Minute || d.Estimated || d.Served {
			t.Errorf("%q: oldest %v, estimated %t, served %t", d.Destination, d.Oldest, d.Estimated, d.Served)
		}
	}
}

// TestStatsShowLeasesAndServers: what is on the wire, who serves, whose lease has ended.
func TestStatsShowLeasesAndServers(t *testing.T) {
	t.Parallel()
	db := dbtest.New(t)
	s := New(db.As(t, dbtest.Worker), Config{Name: "a", LeaseTTL: 10 * time.Second})
	if err := s.Register(t.Context(), []string{"orders", "mails"}); err != nil {
		t.Fatal(err)
	}
	if err := s.Heartbeat(t.Context(), []string{"orders"}, false); err != nil {
		t.Fatal(err)
	}
	for range 20 {
		if _, err := db.Exec(t.Context(), `select messaging_outbox_add('orders', 'order.created', 'shop', '{}')`); err != nil {
			t.Fatal(err)
		}
	}
	work, err := s.FindWork(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var lanes []int32
	for _, w := range work {
		lanes = append(lanes, w.Lane)
	}
	leases, err := s.Take(t.Context(), lanes, len(lanes), time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	var claims []LaneClaim
	for _, l := range leases {
		claims = append(claims, LaneClaim{Step: Step{Lane: l.Lane, Epoch: l.Epoch, Number: TakenOver + 1}, Limit: 100})
	}
	if rows, err := s.ClaimPending(t.Context(), "orders", claims, 1<<20); err != nil || len(rows) != 20 {
		t.Fatalf("%d rows, %v", len(rows), err)
	}
	orders := func() DestinationStats {
		t.Helper()
		stats, err := s.Stats(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range stats.Destinations {
			if d.Destination == "orders" {
				return d
			}
		}
		t.Fatal("orders is missing")
		return DestinationStats{}
	}
	n := int64(len(leases))
	if d := orders(); d.Leased != 20 || !d.Served || d.Lanes["LEASED"] != n || d.Lanes["FREE"] != 16-n || d.Rows[Pending] != 20 {
		t.Errorf("%+v with %d leases", d, n)
	}
	_, err = db.Exec(t.Context(), `update messaging_outbox_lane set lease_until = now() - interval '1 second' where owner is not null`)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Heartbeat(t.Context(), []string{"orders"}, true); err != nil {
		t.Fatal(err)
	}
	if d := orders(); d.Leased != 0 || d.Served || d.Lanes["EXPIRED"] != n || d.Lanes["LEASED"] != 0 {
		t.Errorf("after the lease: %+v", d)
	}
}

// TestEstimateOfPublishedRows: what a table has that is too large to be counted.
func TestEstimateOfPublishedRows(t *testing.T) {
	t.Parallel()
	db, s := statsFixture(t)
	_, err := db.Exec(t.Context(), `
		select messaging_outbox_add(case when i % 4 = 0 then 'mails' else 'orders' end, 'order.created', 'shop', '{}') from generate_series(1, 4000) as i`)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.Exec(t.Context(), `update messaging_outbox set status = 'PUBLISHED', published_at = now() where status = 'PENDING'`); err != nil {
		t.Fatal(err)
	}
	if _, err := db.Exec(t.Context(), `vacuum analyze messaging_outbox`); err != nil {
		t.Fatal(err)
	}
	c := counter{lanes: map[int32]string{}, found: map[string]*DestinationStats{}}
	err = s.do(t.Context(), "estimate", func(ctx context.Context, q *outboxdb.Queries) error {
		if err := c.countLanes(ctx, q, time.Second); err != nil {
			return err
		}
		if err := c.countOpen(ctx, q, 1000); err != nil {
			return err
		}
		return c.estimatePublished(ctx, q)
	})
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]int64{"orders": 3000, "mails": 1000} {
		d := c.found[name]
		if got := d.Rows[Published]; !d.Estimated || got < want*7/10 || got > want*13/10 {
			t.Errorf("%s: about %d published rows, want about %d", name, got, want)
		}
	}
}

// TestCountsOfMany: a backlog is not walked through to be counted.
func TestCountsOfMany(t *testing.T) {
	t.Parallel()
	db, s := statsFixture(t)
	const rows = 8000
	_, err := db.Exec(t.Context(), `select messaging_outbox_add('orders', 'order.created', 'shop', '{}') from generate_series(1, $1::int) as i`, rows)
	if err != nil {
		t.Fatal(err)
	}
	c := counter{lanes: map[int32]string{}, found: map[string]*DestinationStats{}}
	err = s.do(t.Context(), "count", func(ctx context.Context, q *outboxdb.Queries) error {
		if err := c.countLanes(ctx, q, time.Second); err != nil {
			return err
		}
		return c.countOpen(ctx, q, 200)
	})
	if err != nil {
		t.Fatal(err)
	}
	if d := c.found["orders"]; !d.Estimated || d.Rows[Pending] < rows/2 || d.Rows[Pending] > rows*2 {
		t.Errorf("about %d pending rows, want about %d", d.Rows[Pending], rows)
	}
	if d := c.found["mails"]; d.Estimated {
		t.Error("few rows were estimated")
	}
}

// TestB62_OpenRowsAreCountedOverIndexes: the cost must not grow with what was published.
func TestB62_OpenRowsAreCountedOverIndexes(t *testing.T) {
	t.Parallel()
	db, _ := statsFixture(t)
	tx, err := db.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(context.Background()) }()
	if _, err := tx.Exec(t.Context(), settings); err != nil {
		t.Fatal(err)
	}
	q := outboxdb.New(explain{tx})
	for name, run := range map[string]func() error{
		"pending": func() error { _, err := q.CountPending(t.Context(), 100); return err },
		"waiting": func() error { _, err := q.CountWaiting(t.Context(), 100); return err },
		"lanes":   func() error { _, err := q.LaneStates(t.Context()); return err },
	} {
		err := run()
		plan := fmt.Sprint(err)
		if !strings.Contains(plan, "ix_messaging_outbox") || strings.Contains(plan, "Seq Scan on messaging_outbox m") {
			t.Errorf("%s:\n%s", name, plan)
		}
	}
}
