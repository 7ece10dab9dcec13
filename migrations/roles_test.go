package migrations_test

import (
	"database/sql"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
)

func TestLeastPrivilege(t *testing.T) {
	script, err := os.ReadFile("../deploy/sql/roles.sql")
	if err != nil {
		t.Fatal(err)
	}
	onEachMajor(t, func(t *testing.T, db *sql.DB) {
		migrate(t, db)
		for range 2 { // the script may run again
			exec(t, db, string(script))
		}
		exec(t, db, minimal.insert())
		exec(t, db, `select messaging_outbox_register('{orders}')`)
		for _, c := range []struct {
			role      string
			allowed   bool
			statement string
		}{
			{"relay_writer", true, minimal.with("headers", `'{"a": "b"}'`).with("available_at", `now() + interval '1 hour'`).insert()},
			{"relay_writer", true, minimal.insert() + ` returning message_id`},
			{"relay_writer", true, `select messaging_outbox_add('orders', 'order.created', 'shop', 'x', ordering_key => 'k')`},
			{"relay_writer", true, `select messaging_outbox_lock_key('orders', 'k')`},
			{"relay_writer", true, `insert into messaging_inbox (consumer_name, message_id, message_type, payload_hash, expires_at)
				values ('c', messaging_uuidv7(), 'a.b', 'h', now()) on conflict do nothing`},
			{"relay_writer", false, strings.Replace(minimal.with("seq", `1`).insert(), " values ", " overriding system value values ", 1)},
			{"relay_writer", false, minimal.with("status", `'PENDING'`).insert()},
			{"relay_writer", false, minimal.with("attempts", `0`).insert()},
			{"relay_writer", false, minimal.with("created_at", `now()`).insert()},
			{"relay_writer", false, `select payload from messaging_outbox`},
			{"relay_writer", false, `update messaging_outbox set status = 'PUBLISHED'`},
			{"relay_writer", false, `delete from messaging_outbox`},
			{"relay_writer", false, `select * from messaging_outbox_lane`},
			{"relay_writer", false, `update messaging_inbox set payload_hash = 'x'`},
			{"relay_worker", true, `update messaging_outbox set status = 'PUBLISHED', published_at = now() where status = 'PENDING'`},
			{"relay_worker", true, `select payload, headers from messaging_outbox for update skip locked`},
			{"relay_worker", true, `delete from messaging_outbox where status = 'PUBLISHED'`},
			{"relay_worker", true, `select messaging_outbox_register('{orders, mails}')`},
			{"relay_worker", true, `select lane from messaging_outbox_lane for key share`},
			{"relay_worker", false, minimal.insert()},
			{"relay_worker", false, `update messaging_outbox set payload = ''`},
			{"relay_worker", false, `update messaging_outbox set message_id = messaging_uuidv7()`},
			{"relay_worker", false, `insert into messaging_control (scope, name, verb, owner) values ('DESTINATION', 'orders', 'PAUSE', 'me')`},
			{"relay_operator", true, `insert into messaging_control (scope, name, verb, owner) values ('DESTINATION', 'orders', 'PAUSE', 'me')`},
			{"relay_operator", true, `update messaging_outbox set status = 'PARKED' where message_id is not null`},
			{"relay_operator", true, `select * from messaging_outbox_status`},
			{"relay_operator", true, `select * from messaging_outbox_operate('PARK', array(select message_id from messaging_outbox limit 1),
				array(select 0 from messaging_outbox limit 1), 'why')`},
			{"relay_operator", false, `update messaging_audit set reason = 'other'`},
			{"relay_operator", false, `delete from messaging_audit`},
			{"relay_worker", false, `select * from messaging_outbox_operate('PARK', '{}', '{}', 'why')`},
			{"relay_writer", false, `select * from messaging_outbox_operate('PARK', '{}', '{}', 'why')`},
			{"relay_reader", false, `select * from messaging_outbox_operate('PARK', '{}', '{}', 'why')`},
			{"relay_operator", false, `select payload from messaging_outbox`},
			{"relay_operator", false, `select headers from messaging_outbox`},
			{"relay_operator", false, minimal.insert()},
			{"relay_reader", true, `select * from messaging_outbox_status`},
			{"relay_reader", true, `select * from messaging_control`},
			{"relay_reader", true, `select version_id from messaging_schema_version`},
			{"relay_reader", false, `select * from messaging_outbox`},
			{"relay_worker", true, `with gone as (delete from messaging_outbox_archive returning *) insert into messaging_outbox_archive select * from gone`},
			{"relay_reader", true, `select message_id, archived_at from messaging_outbox_archive`},
			{"relay_operator", false, `select payload from messaging_outbox_archive`},
			{"relay_operator", false, `delete from messaging_outbox_archive`},
			{"relay_writer", false, `select message_id from messaging_outbox_archive`},
			{"relay_reader", false, `delete from messaging_control`},
		} {
			switch err := as(t, db, c.role, c.statement); {
			case c.allowed && err != nil:
				t.Errorf("%s may not: %s\n\t%v", c.role, c.statement, err)
			case !c.allowed && !denied(err):
				t.Errorf("%s may: %s\n\t%v", c.role, c.statement, err)
			}
		}
	})
}

// as runs the statement with the rights of a role and takes it back.
func as(t *testing.T, db *sql.DB, role, statement string) error {
	t.Helper()
	tx, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	if _, err := tx.ExecContext(t.Context(), `set local role `+role); err != nil {
		t.Fatal(err)
	}
	_, err = tx.ExecContext(t.Context(), statement)
	return err
}

func denied(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && pg.Code == "42501"
}
