package migrations_test

import (
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
)

// row holds the columns of an INSERT, as SQL expressions.
type row map[string]string

func (r row) with(column, expression string) row {
	c := maps.Clone(r)
	c[column] = expression
	return c
}

func (r row) insert() string {
	columns := slices.Sorted(maps.Keys(r))
	values := make([]string, len(columns))
	for i, c := range columns {
		values[i] = r[c]
	}
	return fmt.Sprintf("insert into messaging_outbox (%s) values (%s)", strings.Join(columns, ", "), strings.Join(values, ", "))
}

// minimal is the least that a plain INSERT names.
var minimal = row{
	"destination":  `'orders'`,
	"message_type": `'order.created'`,
	"producer":     `'shop'`,
	"payload":      `'{}'`,
}

const reference = `{"store":"s3","objectId":"o","size":1,"checksumAlgorithm":"sha-256","checksum":"sha-256:` +
	`0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"}`

// refused are rows that the database refuses: column, expression, name of the refusal.
var refused = []struct{ column, expression, constraint string }{
	{"message_id", `gen_random_uuid()`, "message_id_uuidv7"},
	{"message_id", `'00000000-0000-0000-0000-000000000000'`, "message_id_uuidv7"},
	{"message_id", `'01890a5d-ac96-774b-2cce-b302099a8057'`, "message_id_uuidv7"}, // version 7, foreign variant
	{"destination", `''`, "destination_length"},
	{"destination", `repeat('ä', 161)`, "destination_length"},
	{"message_type", `''`, "message_type_length"},
	{"message_type", `'a.' || repeat('b', 239)`, "message_type_length"},
	{"message_type", `'order'`, "message_type_form"},
	{"message_type", `'Order.created'`, "message_type_form"},
	{"message_type", `'order..created'`, "message_type_form"},
	{"message_type", `E'order.created\n'`, "message_type_form"},
	{"schema_version", `0`, "schema_version_positive"},
	{"content_type", `''`, "content_type_length"},
	{"content_type", `repeat('x', 121)`, "content_type_length"},
	{"producer", `''`, "producer_length"},
	{"producer", `repeat('x', 121)`, "producer_length"},
	{"ordering_key", `''`, "ordering_key_length"},
	{"ordering_key", `repeat('x', 321)`, "ordering_key_length"},
	{"partition_key", `''`, "partition_key_length"},
	{"partition_key", `repeat('x', 321)`, "partition_key_length"},
	{"aggregate_type", `''`, "aggregate_type_length"},
	{"aggregate_type", `repeat('x', 161)`, "aggregate_type_length"},
	{"aggregate_id", `''`, "aggregate_id_length"},
	{"aggregate_id", `repeat('x', 321)`, "aggregate_id_length"},
	{"correlation_id", `''`, "correlation_id_length"},
	{"correlation_id", `repeat('x', 256)`, "correlation_id_length"},
	{"causation_id", `gen_random_uuid()`, "causation_id_uuidv7"},
	{"tenant", `''`, "tenant_length"},
	{"tenant", `repeat('x', 121)`, "tenant_length"},
	{"traceparent", `''`, "traceparent_length"},
	{"tracestate", `repeat('x', 8193)`, "tracestate_length"},
	{"tracestate", `E'a=1\nb=2'`, "trace_context_line_break"},
	{"baggage", `repeat('x', 8193)`, "baggage_length"},
	{"ordering_key", `E'a\nb'`, "text_control_character"},
	{"destination", `E'a\tb'`, "text_control_character"},
	{"correlation_id", `chr(133)`, "text_control_character"},
	{"schema_ref", `'x'`, "schema_ref_form"},
	{"schema_ref", `'[]'`, "schema_ref_form"},
	{"schema_ref", `E'{"version":\n1}'`, "schema_ref_form"},
	{"claim_check", `'{"checksum":'`, "claim_check_form"},
	{"claim_check", `E'{"checksum":\r"md5:00"}'`, "claim_check_form"},
	{"claim_check", `'{"checksum":"md5:00"}'`, "claim_check_checksum"},
	{"claim_check", `'{}'`, "claim_check_checksum"},
	{"claim_check", `'` + reference + `'`, "claim_check_payload_empty"},
	{"payload", `convert_to(repeat('x', 8388609), 'UTF8')`, "payload_too_large"},
	{"created_at", `'infinity'`, "created_at_finite"},
	{"available_at", `'infinity'`, "available_at_finite"},
	{"available_at", `'-infinity'`, "available_at_finite"},
	{"occurred_at", `'-infinity'`, "occurred_at_finite"},
	{"occurred_at", `'12000-01-01'`, "occurred_at_finite"},
	{"headers", `'[]'`, "headers_object"},
	{"headers", `'"x"'`, "headers_object"},
	{"headers", `'null'`, "headers_object"},
	{"headers", `'{"": "x"}'`, "header_name_empty"},
	{"headers", `jsonb_build_object(repeat('ä', 65), 'x')`, "header_name_length"},
	{"headers", `'{"a b": "x"}'`, "header_name_characters"},
	{"headers", `'{"a\tb": "x"}'`, "header_name_characters"},
	{"headers", `'{"msg.id": "x"}'`, "header_name_reserved"},
	{"headers", `'{"MSG.anything": "x"}'`, "header_name_reserved"},
	{"headers", `'{"traceparent": "x"}'`, "header_name_reserved"},
	{"headers", `'{"TraceState": "x"}'`, "header_name_reserved"},
	{"headers", `'{"baggage": "x"}'`, "header_name_reserved"},
	{"headers", `'{"a": "x", "A": "y"}'`, "header_name_twice"},
	{"headers", `'{"a": 1}'`, "header_value_text"},
	{"headers", `'{"a": null}'`, "header_value_text"},
	{"headers", `'{"a": true}'`, "header_value_text"},
	{"headers", `'{"a": ["x"]}'`, "header_value_text"},
	{"headers", `'{"a": {"b": "x"}}'`, "header_value_text"},
	{"headers", `(repeat('{"a":', 2000) || '"x"' || repeat('}', 2000))::jsonb`, "header_value_text"},
	{"headers", `jsonb_build_object('a', repeat('ä', 2049))`, "header_value_length"},
	{"headers", `'{"a": "x\ny"}'`, "header_value_line_break"},
	{"headers", `'{"a": "x\ry"}'`, "header_value_line_break"},
	{"headers", `(select jsonb_object_agg('h' || n, '') from generate_series(1, 65) as n)`, "header_count"},
	{"headers", `(select jsonb_object_agg('h' || n, repeat('x', 4090)) from generate_series(1, 9) as n)`, "header_total"},
	{"status", `'PUBLISHED'`, "status_foreign"},
	{"status", `'SCHEDULED'`, "status_foreign"},
	{"status", `'PARKED'`, "status_foreign"},
	{"attempts", `2147483647`, "outcome_foreign"},
	{"attempts", `-1`, "outcome_foreign"},
	{"crash_attempts", `1`, "outcome_foreign"},
	{"ambiguous_attempts", `1`, "outcome_foreign"},
	{"version", `-1`, "outcome_foreign"},
	{"next_attempt_at", `'infinity'`, "outcome_foreign"},
	{"first_ambiguous_at", `now()`, "outcome_foreign"},
	{"skipped_at", `now()`, "outcome_foreign"},
	{"published_at", `now()`, "outcome_foreign"},
	{"published_by", `gen_random_uuid()`, "outcome_foreign"},
	{"last_outcome", `'CONFIRMED'`, "outcome_foreign"},
	{"last_transmission", `'TRANSMITTED'`, "outcome_foreign"},
	{"last_confirmation", `'BROKER_ACK'`, "outcome_foreign"},
	{"last_routing", `'ROUTED'`, "outcome_foreign"},
	{"last_position", `'kafka:t/0/0'`, "outcome_foreign"},
	{"last_failure_category", `'VALIDATION'`, "outcome_foreign"},
	{"last_failure_code", `'TOO_LARGE'`, "outcome_foreign"},
	{"last_failure_detail", `'x'`, "outcome_foreign"},
}

// forbidden header names, refused in any letter case and with hyphens and underscores treated alike.
var forbidden = []string{
	"authorization", "proxy-authorization", "cookie", "set-cookie", "access-token", "refresh-token", "api-key",
	"password", "client-secret",
}

func TestInsertRefused(t *testing.T) {
	onEachMajor(t, func(t *testing.T, db *sql.DB) {
		migrate(t, db)
		for _, c := range refused {
			wantRefused(t, db, minimal.with(c.column, c.expression), c.constraint)
		}
		for _, name := range forbidden {
			for _, spelled := range []string{name, strings.ToUpper(name), strings.ReplaceAll(name, "-", "_"), strings.ToTitle(name[:1]) + name[1:]} {
				wantRefused(t, db, minimal.with("headers", fmt.Sprintf(`'{"x": "y", %q: "hunter2"}'`, spelled)), "header_name_forbidden")
				// The short form of the rule and the full one agree.
				wantRefused(t, db, minimal.with("headers", fmt.Sprintf(`'{"x": %q, %q: "hunter2"}'`, strings.Repeat("y", 200), spelled)), "header_name_forbidden")
			}
		}
		for _, column := range []string{"destination", "message_type", "producer", "payload"} {
			var pg *pgconn.PgError
			r := maps.Clone(minimal)
			delete(r, column)
			if _, err := db.ExecContext(t.Context(), r.insert()); !errors.As(err, &pg) || pg.ColumnName != column {
				t.Errorf("a row without %s: %v", column, err)
			}
		}
		if n := queryOne[int](t, db, `select count(*) from messaging_outbox`); n != 0 {
			t.Errorf("%d refused rows are in the table", n)
		}
	})
}

// wantRefused also holds that an error never carries what the row said.
func wantRefused(t *testing.T, db *sql.DB, r row, constraint string) {
	t.Helper()
	var pg *pgconn.PgError
	_, err := db.ExecContext(t.Context(), r.insert())
	switch {
	case !errors.As(err, &pg):
		t.Errorf("%.200s\n\twas not refused: %v", r.insert(), err)
	case pg.ConstraintName != "messaging_outbox_"+constraint || pg.Code != "23514":
		t.Errorf("%.200s\n\trefused as %s (%v), want %s", r.insert(), pg.ConstraintName, pg, constraint)
	case strings.Contains(pg.Message+pg.Detail, "hunter2"):
		t.Errorf("the error quotes a value: %s %s", pg.Message, pg.Detail)
	}
}

func TestInsertAccepted(t *testing.T) {
	onEachMajor(t, func(t *testing.T, db *sql.DB) {
		migrate(t, db)
		accepted := []row{
			minimal,
			minimal.with("destination", `repeat('界', 160)`),
			minimal.with("message_type", `'a.' || repeat('b', 238)`),
			minimal.with("message_type", `'a-b_c.d-1._x'`),
			minimal.with("ordering_key", `repeat('😀', 320)`),
			minimal.with("payload", `convert_to(repeat('x', 8388608), 'UTF8')`),
			minimal.with("payload", `''`),
			minimal.with("headers", `'{"X-Region": "EU", "source_system": "a\"b\\c", "k": ""}'`),
			minimal.with("headers", `'{"x": "the value speaks of \"authorization\": and msg."}'`),
			minimal.with("headers", `'{"authorization-x": "msg.id"}'`),
			minimal.with("headers", `jsonb_build_object(repeat('ä', 64), repeat('ä', 2048))`),
			minimal.with("headers", `(select jsonb_object_agg('h' || n, '') from generate_series(1, 64) as n)`),
			minimal.with("occurred_at", `'0001-01-01 00:00:00+00'`),
			minimal.with("schema_ref", `'{"registry":"r","subject":"s","version":1,"id":7}'`),
			minimal.with("payload", `''`).with("claim_check", `'`+reference+`'`),
			minimal.with("tracestate", `E'a=1,\tb=2'`), // W3C allows the tab
			minimal.with("occurred_at", `'9999-12-31 23:59:59.999999+00'`),
			minimal.with("causation_id", `messaging_uuidv7()`),
		}
		for _, r := range accepted {
			if _, err := db.ExecContext(t.Context(), r.insert()); err != nil {
				t.Errorf("%.200s\n\t%v", r.insert(), err)
			}
		}
	})
}

func TestWhatAnInsertBecomes(t *testing.T) {
	onEachMajor(t, func(t *testing.T, db *sql.DB) {
		migrate(t, db)
		for name, c := range map[string]struct {
			row  row
			want string // an expression that is true for the one row
		}{
			"the least": {minimal, `status = 'PENDING' and schema_version = 1 and content_type = 'application/json'
				and headers = '{}' and next_attempt_at is null and created_at between now() - interval '1 minute' and clock_timestamp()
				and available_at <= clock_timestamp() and attempts = 0 and version = 0 and occurred_at is null
				and payload_hash = 'sha-256:44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a'
				and lane = messaging_outbox_lane_of(destination, message_id::text)`},
			"in the past":   {minimal.with("available_at", `now() - interval '1 day'`), `status = 'PENDING' and next_attempt_at is null`},
			"in the future": {minimal.with("available_at", `now() + interval '1 day'`), `status = 'SCHEDULED' and next_attempt_at = available_at`},
			"with a key": {
				minimal.with("ordering_key", `'k'`).with("partition_key", `'p'`),
				`lane = messaging_outbox_lane_of('orders', 'k') and lane >> 4 = messaging_outbox_destination_hash('orders')`,
			},
			"with a claim check": {
				minimal.with("payload", `''`).with("claim_check", `'`+reference+`'`),
				`payload_hash = claim_check::jsonb ->> 'checksum'`,
			},
		} {
			exec(t, db, `truncate messaging_outbox`)
			exec(t, db, c.row.insert())
			if !queryOne[bool](t, db, `select coalesce(bool_and(`+c.want+`), false) from messaging_outbox`) {
				t.Errorf("%s: %s", name, queryOne[string](t, db, `select row_to_json(o)::text from messaging_outbox as o`))
			}
		}
	})
}

// A usual row is accepted by the first trigger alone: the long way costs its writer several times as much. How often each
// function ran is what the server counts.
func TestUsualRowTakesTheShortWay(t *testing.T) {
	onEachMajor(t, func(t *testing.T, db *sql.DB) {
		db.SetMaxOpenConns(1) // the setting, and what is counted for the session
		migrate(t, db)
		exec(t, db, `set track_functions = 'pl'`)
		usual := []row{
			minimal,
			minimal.with("ordering_key", `'order 17'`).with("partition_key", `'eu'`).with("aggregate_type", `'order'`).with("aggregate_id", `'17'`),
			minimal.with("headers", `'{"x-region": "eu-central-1", "x_build": "2026.01.15-3: \u00e9"}'`),
			minimal.with("correlation_id", `gen_random_uuid()::text`).with("causation_id", `messaging_uuidv7()`).with("tenant", `gen_random_uuid()::text`),
			minimal.with("traceparent", `'00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01'`).with("tracestate", `'a=1,b=2'`),
			minimal.with("schema_ref", `'{"registry":"r","subject":"s","version":1,"id":7}'`),
			minimal.with("occurred_at", `now() + interval '1 minute'`),
		}
		for _, r := range usual {
			exec(t, db, r.insert())
		}
		exec(t, db, minimal.with("headers", `'{"X-Capital": "x"}'`).insert())
		exec(t, db, minimal.with("available_at", `now() + interval '1 hour'`).insert())
		exec(t, db, `select pg_stat_force_next_flush()`)
		got := queryOne[string](t, db, `select string_agg(funcname || ' ' || calls, ', ' order by funcname) from pg_stat_user_functions
			where schemaname = current_schema() and funcname in ('messaging_outbox_accept', 'messaging_outbox_guard')`)
		if want := fmt.Sprintf("messaging_outbox_accept %d, messaging_outbox_guard 2", len(usual)+2); got != want {
			t.Errorf("calls: %s, want %s", got, want)
		}
	})
}

// Nobody but the database says in which lane a row is and what its payload hashes to.
func TestDerivedColumnsAreNobodysWord(t *testing.T) {
	onEachMajor(t, func(t *testing.T, db *sql.DB) {
		migrate(t, db)
		const right = `select bool_and(lane = messaging_outbox_lane_of(destination, coalesce(ordering_key, message_id::text))
			and payload_hash = 'sha-256:' || encode(sha256(payload), 'hex')) from messaging_outbox`
		usual := minimal.with("lane", "1").with("payload_hash", "'x'")
		exec(t, db, usual.insert())
		exec(t, db, usual.with("headers", `'{"X-Capital": "x"}'`).insert())
		for _, statement := range []string{
			`select`,
			`update messaging_outbox set lane = 1`,
			`update messaging_outbox set payload_hash = ''`,
			`update messaging_outbox set destination = 'mails', ordering_key = 'k', payload = 'other'`,
		} {
			exec(t, db, statement)
			if !queryOne[bool](t, db, right) {
				t.Errorf("%s: lane or payload_hash is wrong", statement)
			}
		}
	})
}

func TestUpdateRefused(t *testing.T) {
	onEachMajor(t, func(t *testing.T, db *sql.DB) {
		migrate(t, db)
		exec(t, db, minimal.insert())
		for _, c := range []struct{ set, constraint string }{
			{`message_id = messaging_uuidv7()`, "message_id_rewritten"},
			{`destination = ''`, "destination_length"},
			{`headers = '{"cookie": "x"}'`, "header_name_forbidden"},
			{`available_at = 'infinity'`, "available_at_finite"},
			{`status = 'PUBLISHED'`, "published_at_known"},
			{`ambiguous_attempts = 1`, "doubt_kept"},
			{`ambiguous_attempts = 1, status = 'HELD', ordering_key = 'k'`, "doubt_kept"},
			{`status = 'HELD'`, "keyless_waiting"},
			{`status = 'HELD', next_attempt_at = now()`, "keyless_waiting"},
			{`status = 'RETRYABLE_FAILURE'`, "keyless_waiting"},
			{`status = 'AMBIGUOUS'`, "keyless_waiting"},
			{`status = 'SCHEDULED', ordering_key = 'k'`, "scheduled_due"},
			{`next_attempt_at = 'infinity'`, "times_finite"},
			{`next_attempt_at = '-infinity'`, "times_finite"},
			{`published_at = 'infinity'`, "times_finite"},
			{`first_ambiguous_at = '-infinity'`, "times_finite"},
			{`skipped_at = 'infinity'`, "times_finite"},
		} {
			var pg *pgconn.PgError
			_, err := db.ExecContext(t.Context(), `update messaging_outbox set `+c.set)
			if !errors.As(err, &pg) || pg.ConstraintName != "messaging_outbox_"+c.constraint {
				t.Errorf("set %s: %v, want %s", c.set, err, c.constraint)
			}
		}
		for _, set := range []string{
			`message_id = message_id`,
			`status = 'HELD', ordering_key = 'k'`,
			`status = 'AMBIGUOUS', ambiguous_attempts = 1, next_attempt_at = null`,
			`status = 'PARKED'`,
			`status = 'RETRYABLE_FAILURE', ambiguous_attempts = 0, ordering_key = null, next_attempt_at = now()`,
			`status = 'PUBLISHED', published_at = now(), next_attempt_at = null`,
		} {
			if _, err := db.ExecContext(t.Context(), `update messaging_outbox set `+set); err != nil {
				t.Errorf("set %s: %v", set, err)
			}
		}
	})
}
