package outbox_test

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/backend-skeleton/relay/internal/outbox"
)

// Clean-up goes in small committed steps beside a writer's open transaction; one that dies half way loses no progress,
// and the next goes on from the place that was kept.
func TestB54_CleanUpGetsThrough(t *testing.T) {
	t.Parallel()
	b := setup(t, 10*time.Second)
	const rows, page = 12_000, 5_000
	// Ids, and so the order of pruning, are as old as the rows.
	for _, sql := range []string{
		`insert into messaging_outbox (message_id, destination, message_type, producer, payload)
		 select ('01000000-0000-7000-8000-' || lpad(to_hex(i), 12, '0'))::uuid, 'orders', 'order.created', 'shop', '{}' from generate_series(1, 12000) i`,
		`update messaging_outbox set status = 'PUBLISHED', published_at = now() - interval '8 days'`,
	} {
		if _, err := b.db.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	writer, err := b.db.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer writer.Rollback(t.Context()) // after a commit it does nothing
	if _, err := writer.Exec(t.Context(), `select messaging_outbox_add('orders', 'order.created', 'shop', '{}')`); err != nil {
		t.Fatal(err)
	}

	// The process ends after its second page, before it has written down its place, and gives nothing back.
	pool, err := pgxpool.New(t.Context(), b.db.URL())
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	var first []int64
	dying := outbox.New(pool, outbox.Config{Name: "dying"})
	if _, err := dying.Prune(t.Context(), 7*24*time.Hour, func(n int64) {
		if first = append(first, n); len(first) == 2 {
			pool.Close()
		}
	}); err == nil {
		t.Fatal("the process went on without a database")
	}
	if len(first) != 2 || first[0] != page || first[1] != page {
		t.Fatalf("pages of %v, want two of %d", first, page)
	}
	var cursor string
	if err := b.db.QueryRow(t.Context(), `select cursor from messaging_outbox_task where name = 'retention'`).Scan(&cursor); err != nil || cursor != "01000000-0000-7000-8000-000000001388" {
		t.Errorf("the kept place is %q, %v, want the end of the first page", cursor, err)
	}

	if mine, err := b.store.Prune(t.Context(), 7*24*time.Hour, func(int64) {}); err != nil || mine {
		t.Errorf("two at a time: %t, %v", mine, err)
	}
	if _, err := b.db.Exec(t.Context(), `update messaging_outbox_task set lease_until = clock_timestamp()`); err != nil { // a minute later
		t.Fatal(err)
	}
	var rest int64
	if mine, err := b.store.Prune(t.Context(), 7*24*time.Hour, func(n int64) { rest += n }); err != nil || !mine || rest != rows-2*page {
		t.Errorf("the next: mine %t, %d deleted, %v, want true and %d", mine, rest, err, rows-2*page)
	}
	if err := writer.Commit(t.Context()); err != nil {
		t.Error(err)
	}
	var left int
	if err := b.db.QueryRow(t.Context(), `select count(*) from messaging_outbox`).Scan(&left); err != nil || left != 1 {
		t.Errorf("%d rows are left, %v, want the writer's", left, err)
	}
}

func TestB53_PruneGoesByTheTimeOfPublishing(t *testing.T) {
	t.Parallel()
	b := setup(t, 10*time.Second)
	// Ids, and so the order of pruning, are as old as the rows.
	_, err := b.db.Exec(t.Context(), `
	  with r(status, published_at) as (values ('PENDING', null), ('PARKED', null), ('PUBLISHED', now()), ('PUBLISHED', now() - interval '8 days'))
	  insert into messaging_outbox (message_id, destination, message_type, producer, payload)
	  select ('01000000-0000-7000-8000-00000000000' || row_number() over ())::uuid, 'orders', 'order.created', 'shop', '{}' from r`)
	if err != nil {
		t.Fatal(err)
	}
	_, err = b.db.Exec(t.Context(), `
	  update messaging_outbox set status = 'PARKED' where message_id = '01000000-0000-7000-8000-000000000002';
	  update messaging_outbox set status = 'PUBLISHED', published_at = now() where message_id = '01000000-0000-7000-8000-000000000003';
	  update messaging_outbox set status = 'PUBLISHED', published_at = now() - interval '8 days' where message_id = '01000000-0000-7000-8000-000000000004'`)
	if err != nil {
		t.Fatal(err)
	}
	var deleted int64
	mine, err := b.store.Prune(t.Context(), 7*24*time.Hour, func(n int64) { deleted += n })
	if err != nil || !mine || deleted != 1 {
		t.Fatalf("prune: mine %t, deleted %d, %v, want true and 1", mine, deleted, err)
	}
	var left int
	if err := b.db.QueryRow(t.Context(), `select count(*) from messaging_outbox`).Scan(&left); err != nil || left != 3 {
		t.Errorf("%d rows left, %v, want 3", left, err)
	}
}
