package migrations_test

import (
	"context"
	"database/sql"
	"errors"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

func TestAdd(t *testing.T) {
	onEachMajor(t, func(t *testing.T, db *sql.DB) {
		migrate(t, db)
		id := queryOne[string](t, db, `select messaging_outbox_add('orders', 'order.created', 'shop', 'x')`)
		if !regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`).MatchString(id) {
			t.Errorf("id %s is no UUIDv7", id)
		}
		if !queryOne[bool](t, db, `select status = 'PENDING' and schema_version = 1 and content_type = 'application/json'
				and headers = '{}' and payload = 'x' and coalesce(ordering_key, partition_key, aggregate_type, aggregate_id,
				correlation_id, tenant, traceparent, tracestate, baggage, schema_ref, claim_check) is null
				and causation_id is null and occurred_at is null and next_attempt_at is null
			from messaging_outbox where message_id = $1`, id) {
			t.Error("the defaults of messaging_outbox_add are wrong")
		}
		const given = "01890a5d-ac96-774b-bcce-b302099a8057"
		got := queryOne[string](t, db, `select messaging_outbox_add(
			destination => 'orders', message_type => 'order.created', producer => 'shop', payload => '',
			ordering_key => 'ok', partition_key => 'pk', headers => '{"a": "b"}', message_id => '`+given+`',
			schema_version => 3, content_type => 'application/avro', occurred_at => '2026-01-02 03:04:05+00',
			available_at => now() + interval '1 hour', aggregate_type => 'order', aggregate_id => '7', correlation_id => 'co',
			causation_id => '`+given+`', tenant => 'te', traceparent => 'tp', tracestate => 'ts', baggage => 'bg',
			schema_ref => '{"id":1}', claim_check => '`+reference+`')`)
		if got != given {
			t.Errorf("returned id %s, given %s", got, given)
		}
		if !queryOne[bool](t, db, `select ordering_key = 'ok' and partition_key = 'pk' and headers = '{"a": "b"}' and schema_version = 3
				and content_type = 'application/avro' and occurred_at = '2026-01-02 03:04:05+00' and status = 'SCHEDULED'
				and next_attempt_at = available_at and aggregate_type = 'order' and aggregate_id = '7' and correlation_id = 'co'
				and causation_id = message_id and tenant = 'te' and traceparent = 'tp' and tracestate = 'ts' and baggage = 'bg'
				and schema_ref = '{"id":1}' and claim_check = '`+reference+`'
			from messaging_outbox where message_id = $1`, given) {
			t.Error("messaging_outbox_add lost an argument")
		}
		var pg *pgconn.PgError
		if _, err := db.ExecContext(t.Context(), `select messaging_outbox_add('orders', 'order.created', 'shop', '', message_id => '`+given+`')`); !errors.As(err, &pg) || pg.Code != "23505" {
			t.Errorf("the same id again: %v", err)
		}
	})
}

func TestUUIDv7(t *testing.T) {
	onEachMajor(t, func(t *testing.T, db *sql.DB) {
		migrate(t, db)
		ids := queryOne[string](t, db, `select string_agg(messaging_uuidv7()::text, ' ') from generate_series(1, 5000)`)
		seen := map[string]bool{}
		for _, id := range strings.Fields(ids) {
			seen[id] = true
		}
		if len(seen) != 5000 {
			t.Errorf("%d ids out of 5000 differ", len(seen))
		}
		if !queryOne[bool](t, db, `
			select bool_and(abs(('x0000' || substr(replace(id::text, '-', ''), 1, 12))::bit(64)::bigint
			                    - extract(epoch from clock_timestamp()) * 1000) < 60000
			                and get_byte(uuid_send(id), 6) >> 4 = 7 and get_byte(uuid_send(id), 8) >> 6 = 2)
			from (select messaging_uuidv7() as id from generate_series(1, 100)) as ids`) {
			t.Error("ids do not hold the time of the database, version 7 and the variant")
		}
		// In the order of time: what was made a millisecond later is greater.
		if !queryOne[bool](t, db, `select messaging_uuidv7() < (select messaging_uuidv7() from pg_sleep(0.002))`) {
			t.Error("ids do not rise with time")
		}
	})
}

func TestStatusViewShowsClaims(t *testing.T) {
	onEachMajor(t, func(t *testing.T, db *sql.DB) {
		migrate(t, db)
		exec(t, db, `select messaging_outbox_register('{orders}')`)
		for range 3 { // one key, so one lane
			exec(t, db, minimal.with("ordering_key", `'k'`).insert())
		}
		exec(t, db, minimal.with("ordering_key", `'k'`).with("available_at", `now() + interval '1 hour'`).insert())
		lane := queryOne[int](t, db, `select distinct lane from messaging_outbox`)
		if n := queryOne[int](t, db, `select count(*) from messaging_outbox_lane where destination = 'orders' and slot = lane & 15 and lane >> 4 = messaging_outbox_destination_hash('orders')`); n != 16 {
			t.Fatalf("%d lanes, want 16", n)
		}
		states := func() string {
			return queryOne[string](t, db, `select string_agg(status || case when lease_owner is null then '' else '*' end, ' ' order by seq) from messaging_outbox_status`)
		}
		owner := "01890a5d-ac96-774b-bcce-b302099a8057"
		for _, step := range []struct{ lease, want string }{
			{`window_lo = null`, "PENDING PENDING PENDING SCHEDULED"},
			{`owner = '` + owner + `', lease_until = now() + interval '20 s', lease_ttl = '30 s'`, "PENDING PENDING PENDING SCHEDULED"},
			{`window_lo = 1, window_hi = 2`, "CLAIMED* CLAIMED* PENDING SCHEDULED"},
			{`window_ids = array(select message_id from messaging_outbox where status = 'SCHEDULED')`, "CLAIMED* CLAIMED* PENDING CLAIMED*"},
			{`lease_until = now() - interval '1 s'`, "PENDING PENDING PENDING SCHEDULED"},
			{`lease_until = '-infinity'`, "PENDING PENDING PENDING SCHEDULED"},
			// Further ahead than the owner could have set it, and the owner is not alive: expired.
			{`lease_until = now() + interval '1 day'`, "PENDING PENDING PENDING SCHEDULED"},
		} {
			exec(t, db, `update messaging_outbox_lane set `+step.lease+` where lane = $1`, lane)
			if got := states(); got != step.want {
				t.Errorf("%s: %s, want %s", step.lease, got, step.want)
			}
		}
		exec(t, db, `insert into messaging_outbox_relay (id) values ($1)`, owner)
		if got := states(); got != "PENDING PENDING PENDING SCHEDULED" {
			t.Errorf("the owner of a far lease is alive and serves others: %s", got)
		}
		exec(t, db, `update messaging_outbox_relay set serves = (select array_agg(destination) from messaging_outbox_destination)`)
		if got := states(); got != "CLAIMED* CLAIMED* PENDING CLAIMED*" {
			t.Errorf("the owner of a far lease is alive: %s", got)
		}
		exec(t, db, `update messaging_outbox set status = 'PUBLISHED', published_at = now()`)
		if got := states(); got != "PUBLISHED PUBLISHED PUBLISHED PUBLISHED" {
			t.Errorf("published rows in a window: %s", got)
		}
	})
}

func TestStatusViewHidesContent(t *testing.T) {
	onEachMajor(t, func(t *testing.T, db *sql.DB) {
		migrate(t, db)
		missing := queryOne[string](t, db, `
			select coalesce(string_agg(attname, ' ' order by attname), '') from pg_attribute as a
			where attrelid = 'messaging_outbox'::regclass and attnum > 0 and not attisdropped
			  and not exists (select from pg_attribute as v where v.attrelid = 'messaging_outbox_status'::regclass and v.attname = a.attname)`)
		if missing != "headers payload" {
			t.Errorf("the view lacks %q, want headers and payload alone", missing)
		}
	})
}

func TestRegister(t *testing.T) {
	onEachMajor(t, func(t *testing.T, db *sql.DB) {
		migrate(t, db)
		for range 2 {
			exec(t, db, `select messaging_outbox_register('{orders, mails, orders}')`)
		}
		if n := queryOne[int](t, db, `select count(*) from messaging_outbox_lane join messaging_outbox_destination using (destination)`); n != 32 {
			t.Errorf("%d lanes for two destinations", n)
		}
		var one, other string
		if err := db.QueryRowContext(t.Context(), `
			select min(name), max(name) from (select 'd' || n as name from generate_series(1, 100000) as n) as names
			group by messaging_outbox_destination_hash(name) having count(*) > 1 limit 1`).Scan(&one, &other); err != nil {
			t.Fatalf("no two names with one hash: %v", err)
		}
		exec(t, db, `select messaging_outbox_register(array[$1])`, one)
		_, err := db.ExecContext(t.Context(), `select messaging_outbox_register(array['new', $1])`, other)
		var pg *pgconn.PgError
		if !errors.As(err, &pg) || pg.ConstraintName != "messaging_outbox_destination_hash_unique" ||
			!strings.Contains(pg.Message, `"`+one+`"`) || !strings.Contains(pg.Message, `"`+other+`"`) {
			t.Errorf("two names in the same lanes: %v", err)
		}
		if n := queryOne[int](t, db, `select count(*) from messaging_outbox_destination`); n != 3 {
			t.Errorf("%d destinations after the refusal, want 3", n)
		}
	})
}

func TestLockKeyMakesWritersTakeTurns(t *testing.T) {
	onEachMajor(t, func(t *testing.T, db *sql.DB) {
		migrate(t, db)
		first, err := db.BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer first.Rollback()
		if _, err := first.ExecContext(t.Context(), `select messaging_outbox_lock_key('orders', 'k')`); err != nil {
			t.Fatal(err)
		}
		exec(t, db, `select messaging_outbox_lock_key('orders', 'other'), messaging_outbox_lock_key('mails', 'k')`)
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		if _, err := db.ExecContext(ctx, `select messaging_outbox_lock_key('orders', 'k')`); err == nil {
			t.Fatal("two transactions hold the lock of one key")
		}
		if err := first.Commit(); err != nil {
			t.Fatal(err)
		}
		exec(t, db, `select messaging_outbox_lock_key('orders', 'k')`)
	})
}

// TestWithoutSearchPath uses every object by its qualified name while the search_path is empty, which is how a restore
// loads rows and how a careful writer calls.
func TestWithoutSearchPath(t *testing.T) {
	onEachMajor(t, func(t *testing.T, db *sql.DB) {
		migrate(t, db)
		schema := queryOne[string](t, db, `select current_schema()`)
		conn, err := db.Conn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		for _, statement := range []string{
			`set search_path = ''`,
			strings.Replace(minimal.with("headers", `'{"X-Long": "slow way"}'`).with("available_at", `now() + interval '1 hour'`).insert(), "messaging_outbox", "S.messaging_outbox", 1),
			`select S.messaging_outbox_add('orders', 'order.created', 'shop', 'x', ordering_key => 'k')`,
			`select S.messaging_outbox_lock_key('orders', 'k')`,
			`select * from S.messaging_outbox_status`,
			`update S.messaging_outbox set destination = 'mails'`,
		} {
			if _, err := conn.ExecContext(t.Context(), strings.ReplaceAll(statement, "S.", schema+".")); err != nil {
				t.Errorf("%s\n\t%v", statement, err)
			}
		}
	})
}
