package dbtest

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"
)

// execAdmin runs statements on a connection of its own. It outlives the test's context, because cleanup needs it.
func execAdmin(t testing.TB, url string, statements ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), limit)
	defer cancel()
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		t.Fatalf("connect to PostgreSQL: %v", err)
	}
	defer func() { _ = conn.Close(ctx) }()
	for _, statement := range statements {
		if _, err := conn.Exec(ctx, statement); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
}

// dropSchema first ends the sessions that still hold a lock on something in the schema: a process that the test killed
// may have left one in the middle of a transaction, and the drop would wait for it.
func dropSchema(t testing.TB, url, schema string) {
	t.Helper()
	execAdmin(t, url,
		`set lock_timeout = '10s'`,
		`select pg_terminate_backend(pid, 5000) from (
			select distinct l.pid from pg_locks as l join pg_class as c on c.oid = l.relation
			where l.database = (select oid from pg_database where datname = current_database())
			  and c.relnamespace = '`+schema+`'::regnamespace and l.pid <> pg_backend_pid()) as holders`,
		`set client_min_messages = warning`,
		`drop schema if exists `+schema+` cascade`)
}
