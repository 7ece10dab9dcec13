package outbox_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/backend-skeleton/relay/internal/dbtest"
	"github.com/backend-skeleton/relay/internal/outbox"
)

const week = 7 * 24 * time.Hour

// aged inserts n rows whose ids are from the year 2005 and publishes them age ago.
func aged(t *testing.T, db *dbtest.DB, n int, age time.Duration) {
	t.Helper()
	for _, sql := range []string{
		fmt.Sprintf(`insert into messaging_outbox (message_id, destination, message_type, producer, payload)
		  select ('01000000-0000-7000-8000-' || lpad(to_hex(i), 12, '0'))::uuid, 'orders', 'order.created', 'shop', '{}' from generate_series(1, %d) i`, n),
		fmt.Sprintf(`update messaging_outbox set status = 'PUBLISHED', published_at = now() - interval '%d seconds'`, int(age.Seconds())),
	} {
		if _, err := db.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
}

func count(t *testing.T, db *dbtest.DB, sql string) (n int) {
	t.Helper()
	if err := db.QueryRow(t.Context(), sql).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// Clean-up goes in small committed steps beside a writer's open transaction; one that dies half way loses no progress,
// and the next goes on from the place that was kept.
func TestB54_CleanUpGetsThrough(t *testing.T) {
	t.Parallel()
	b := setup(t, 10*time.Second)
	const rows, page = 12_000, 5_000
	aged(t, b.db, rows, 8*24*time.Hour)
	writer, err := b.db.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer writer.Rollback(t.Context()) // after a commit it does nothing
	if _, err := writer.Exec(t.Context(), `select messaging_outbox_add('orders', 'order.created', 'shop', '{}')`); err != nil {
		t.Fatal(err)
	}

	// The process loses its database after its second page, and gives nothing back.
	pool, err := pgxpool.New(t.Context(), b.db.URL())
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	pages, gone := 0, int64(0)
	dying := outbox.New(pool, outbox.Config{Name: "dying"})
	if _, err := dying.Prune(t.Context(), outbox.Retention{Keep: week}, func(p outbox.Page) {
		if p.Rows > page || p.Took <= 0 {
			t.Errorf("a page of %d rows that took %v", p.Rows, p.Took)
		}
		gone += p.Rows
		if pages++; pages == 2 {
			pool.Close()
		}
	}); err == nil {
		t.Fatal("the process went on without a database")
	}
	var cursor string
	if err := b.db.QueryRow(t.Context(), `select cursor from messaging_outbox_task where name = 'retention'`).Scan(&cursor); err != nil || cursor != fmt.Sprintf("01000000-0000-7000-8000-%012x", gone) {
		t.Errorf("the kept place is %q, %v, want the end of the %d rows that went", cursor, err, gone)
	}

	if mine, err := b.store.Prune(t.Context(), outbox.Retention{Keep: week}, func(outbox.Page) {}); err != nil || mine {
		t.Errorf("two at a time: %t, %v", mine, err)
	}
	expireTasks(t, b.db)
	var rest int64
	if mine, err := b.store.Prune(t.Context(), outbox.Retention{Keep: week}, func(p outbox.Page) { rest += p.Rows }); err != nil || !mine || rest != rows-gone {
		t.Errorf("the next: mine %t, %d deleted, %v, want true and %d", mine, rest, err, rows-gone)
	}
	if err := writer.Commit(t.Context()); err != nil {
		t.Error(err)
	}
	if left := count(t, b.db, `select count(*) from messaging_outbox`); left != 1 {
		t.Errorf("%d rows are left, want the writer's", left)
	}
	if cursor := count(t, b.db, `select count(*) from messaging_outbox_task where cursor = '' and owner is null`); cursor != 1 {
		t.Error("the next round does not start at the beginning")
	}
}

// expireTasks is what a minute does to the lease of a process that died.
func expireTasks(t *testing.T, db *dbtest.DB) {
	t.Helper()
	if _, err := db.Exec(t.Context(), `update messaging_outbox_task set lease_until = clock_timestamp()`); err != nil {
		t.Fatal(err)
	}
}

func TestB53_PruneGoesByTheTimeOfPublishing(t *testing.T) {
	t.Parallel()
	b := setup(t, 10*time.Second)
	// Ids, and so the order of pruning, are as old as the rows; the last one is of a clock that is a year ahead.
	_, err := b.db.Exec(t.Context(), `
	  insert into messaging_outbox (message_id, destination, message_type, producer, payload)
	  select ('01000000-0000-7000-8000-00000000000' || i)::uuid, 'orders', 'order.created', 'shop', '{}' from generate_series(1, 4) i;
	  insert into messaging_outbox (message_id, destination, message_type, producer, payload) values
	  (overlay(messaging_uuidv7()::text placing left(to_hex(((extract(epoch from now() + interval '1 year') * 1000)::bigint << 16)), 8) from 1 for 8)::uuid, 'orders', 'order.created', 'shop', 'ahead')`)
	if err != nil {
		t.Fatal(err)
	}
	_, err = b.db.Exec(t.Context(), `
	  update messaging_outbox set status = 'PARKED' where message_id = '01000000-0000-7000-8000-000000000002';
	  update messaging_outbox set status = 'PUBLISHED', published_at = now() where message_id = '01000000-0000-7000-8000-000000000003';
	  update messaging_outbox set status = 'PUBLISHED', published_at = now() - interval '8 days' where message_id = '01000000-0000-7000-8000-000000000004' or payload = 'ahead'`)
	if err != nil {
		t.Fatal(err)
	}
	var deleted int64
	mine, err := b.store.Prune(t.Context(), outbox.Retention{Keep: week}, func(p outbox.Page) { deleted += p.Rows })
	if err != nil || !mine || deleted != 2 {
		t.Fatalf("prune: mine %t, deleted %d, %v, want true and 2", mine, deleted, err)
	}
	if left := count(t, b.db, `select count(*) from messaging_outbox where right(message_id::text, 1) in ('1', '2', '3')`); left != 3 {
		t.Errorf("%d rows left, want 3", left)
	}
}

// The archive says of a row what the outbox said of it, column by column.
func TestArchiveKeepsEveryColumn(t *testing.T) {
	t.Parallel()
	b := setup(t, 10*time.Second)
	for table, other := range map[string]string{"messaging_outbox": "messaging_outbox_archive", "messaging_outbox_archive": "messaging_outbox"} {
		var missing string
		err := b.db.QueryRow(t.Context(), `select coalesce(string_agg(a.attname, ' '), '') from pg_attribute a
		  where a.attrelid = $1::text::regclass and a.attnum > 0 and not a.attisdropped and a.attname <> 'archived_at'
		    and not exists (select from pg_attribute z where z.attrelid = $2::text::regclass and z.attname = a.attname and z.atttypid = a.atttypid)`, table, other).Scan(&missing)
		if err != nil || missing != "" {
			t.Errorf("%s has columns that %s lacks: %s, %v", table, other, missing, err)
		}
	}
	aged(t, b.db, 10, 8*24*time.Hour)
	if _, err := b.db.Exec(t.Context(), `update messaging_outbox set headers = '{"a": "b"}', ordering_key = 'k', attempts = 3, ambiguous_attempts = 1, first_ambiguous_at = now(),
	  last_outcome = 'CONFIRMED', last_position = 'kafka:t/0/1', published_by = messaging_uuidv7(), occurred_at = now(), redrive_count = 2`); err != nil {
		t.Fatal(err)
	}
	content := func(table string) (text string) {
		if err := b.db.QueryRow(t.Context(), `select string_agg((to_jsonb(o) - 'archived_at')::text, ' ' order by seq) from `+table+` o`).Scan(&text); err != nil {
			t.Fatal(err)
		}
		return text
	}
	before := content("messaging_outbox")
	retention := outbox.Retention{Keep: week, Archive: true, Batch: 3}
	var moved int64
	if _, err := b.store.Prune(t.Context(), retention, func(p outbox.Page) { moved += p.Rows }); err != nil || moved != 10 {
		t.Fatalf("moved %d, %v", moved, err)
	}
	if after := content("messaging_outbox_archive"); after != before {
		t.Errorf("the archive has\n%s\nthe outbox had\n%s", after, before)
	}
	// The ids come again, as after a redelivery of the request that wrote them: nothing stops for it, nothing is dropped.
	aged(t, b.db, 10, 8*24*time.Hour)
	if _, err := b.store.Prune(t.Context(), retention, func(outbox.Page) {}); err != nil {
		t.Fatal(err)
	}
	if n := count(t, b.db, `select count(*) from messaging_outbox_archive`); n != 20 {
		t.Errorf("%d rows in the archive, want both generations", n)
	}

	// The archive has an age of its own.
	if _, err := b.db.Exec(t.Context(), `update messaging_outbox_archive set archived_at = now() - interval '400 days' where right(message_id::text, 1) in ('1', '2')`); err != nil {
		t.Fatal(err)
	}
	var gone int64
	if mine, err := b.store.PruneArchive(t.Context(), 365*24*time.Hour, 0, func(p outbox.Page) { gone += p.Rows }); err != nil || !mine || gone != 4 {
		t.Errorf("the archive's retention: mine %t, %d rows, %v", mine, gone, err)
	}
}

// Whoever lost the task while he stood still removes nothing more.
func TestPruneStopsWhenTheTaskIsAnothers(t *testing.T) {
	t.Parallel()
	b := setup(t, 10*time.Second)
	aged(t, b.db, 100, 8*24*time.Hour)
	var gone int64
	_, err := b.store.Prune(t.Context(), outbox.Retention{Keep: week, Batch: 10}, func(p outbox.Page) {
		gone += p.Rows
		if _, err := b.db.Exec(t.Context(), `update messaging_outbox_task set owner = messaging_uuidv7()`); err != nil {
			t.Error(err)
		}
	})
	if err != nil || gone != 10 {
		t.Errorf("%d rows, %v, want those of the first page", gone, err)
	}
	if left := count(t, b.db, `select count(*) from messaging_outbox`); left != 90 {
		t.Errorf("%d rows are left", left)
	}
}
