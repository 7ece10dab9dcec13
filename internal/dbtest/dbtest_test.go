package dbtest_test

import (
	"testing"

	"github.com/jackc/pgx/v5"
	"go.uber.org/goleak"

	"github.com/backend-skeleton/relay/internal/dbtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestSchemasAreSeparate(t *testing.T) {
	t.Parallel()
	dbtest.Majors(t, func(t *testing.T, major int) {
		one, two := dbtest.New(t, dbtest.Major(major)), dbtest.New(t, dbtest.Major(major))
		insert(t, one)
		if got := count(t, one); got != 1 {
			t.Errorf("the schema that was written holds %d rows, want 1", got)
		}
		if got := count(t, two); got != 0 {
			t.Errorf("the other schema holds %d rows, want 0", got)
		}
		var server int
		if err := one.QueryRow(t.Context(), `select current_setting('server_version_num')::int / 10000`).Scan(&server); err != nil {
			t.Fatal(err)
		}
		if server != major {
			t.Errorf("PostgreSQL %d answers for %d", server, major)
		}
	})
}

func TestURLLeadsToTheSchema(t *testing.T) {
	t.Parallel()
	db := dbtest.New(t)
	insert(t, db)
	conn, err := pgx.Connect(t.Context(), db.URL())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(t.Context()) }()
	var rows int
	if err := conn.QueryRow(t.Context(), `select count(*) from messaging_outbox`).Scan(&rows); err != nil || rows != 1 {
		t.Errorf("by URL: %d rows, %v; want 1", rows, err)
	}
	if err := db.SQL(t).QueryRow(`select count(*) from messaging_outbox`).Scan(&rows); err != nil || rows != 1 {
		t.Errorf("by database/sql: %d rows, %v; want 1", rows, err)
	}
}

func TestCleanupDropsTheSchemaThoughItIsInUse(t *testing.T) {
	t.Parallel()
	observer := dbtest.New(t, dbtest.Empty())
	var schema string
	t.Run("inner", func(t *testing.T) {
		db := dbtest.New(t)
		schema = db.Schema
		conn, err := pgx.Connect(t.Context(), db.URL())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Exec(t.Context(), `begin; select messaging_outbox_add('orders', 'order.created', 'shop', 'x')`); err != nil {
			t.Fatal(err)
		}
		// The transaction stays open, as that of a killed process may.
	})
	var left bool
	if err := observer.QueryRow(t.Context(), `select to_regnamespace($1) is not null`, schema).Scan(&left); err != nil {
		t.Fatal(err)
	}
	if left {
		t.Errorf("schema %s is still there", schema)
	}
}

func TestOwnDatabase(t *testing.T) {
	t.Parallel()
	db := dbtest.New(t, dbtest.OwnDatabase())
	insert(t, db)
	if _, err := db.Exec(t.Context(), `do $$ begin
		execute format('alter database %I set default_transaction_isolation = ''serializable''', current_database()); end $$`); err != nil {
		t.Fatal(err)
	}
	conn, err := pgx.Connect(t.Context(), db.URL())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(t.Context()) }()
	var isolation string
	if err := conn.QueryRow(t.Context(), `show transaction_isolation`).Scan(&isolation); err != nil || isolation != "serializable" {
		t.Errorf("isolation %q, %v", isolation, err)
	}
}

func TestEmptyLeavesTheMigrationsOut(t *testing.T) {
	t.Parallel()
	db := dbtest.New(t, dbtest.Empty())
	var there bool
	if err := db.QueryRow(t.Context(), `select to_regclass('messaging_outbox') is not null`).Scan(&there); err != nil || there {
		t.Errorf("messaging_outbox exists: %v, %v", there, err)
	}
}

func TestAnAccountHasItsRoleAlone(t *testing.T) {
	t.Parallel()
	db := dbtest.New(t)
	writer, reader := db.As(t, dbtest.Writer), db.As(t, dbtest.Reader)
	const add = `select messaging_outbox_add('orders', 'order.created', 'shop', 'x')`
	if _, err := writer.Exec(t.Context(), add); err != nil {
		t.Errorf("a writer may not write: %v", err)
	}
	if _, err := reader.Exec(t.Context(), add); err == nil {
		t.Error("a reader may write")
	}
	if _, err := writer.Exec(t.Context(), `delete from messaging_outbox`); err == nil {
		t.Error("a writer may delete")
	}
}

func insert(t *testing.T, db *dbtest.DB) {
	t.Helper()
	if _, err := db.Exec(t.Context(), `select messaging_outbox_add('orders', 'order.created', 'shop', 'x')`); err != nil {
		t.Fatalf("insert a row: %v", err)
	}
}

func count(t *testing.T, db *dbtest.DB) (rows int) {
	t.Helper()
	if err := db.QueryRow(t.Context(), `select count(*) from messaging_outbox`).Scan(&rows); err != nil {
		t.Fatal(err)
	}
	return rows
}
