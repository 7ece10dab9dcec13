package client_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/backend-skeleton/relay/client"
	"github.com/backend-skeleton/relay/internal/dbtest"
	"github.com/backend-skeleton/relay/messaging"
)

// TestB68_CommitThatWasARollback: after an ignored error of a statement the server answers COMMIT with ROLLBACK. The
// helper says so, leaves no row and wakes nobody.
func TestB68_CommitThatWasARollback(t *testing.T) {
	t.Parallel()
	dbtest.Majors(t, func(t *testing.T, major int) {
		db := dbtest.New(t, dbtest.Major(major), dbtest.OwnDatabase()) // of its own: notifications are per database
		c := newClient(t, client.Config{Wake: db.Pool})
		orders := newOutbox(t, c, created)
		heard := listen(t, db)

		err := c.InTx(t.Context(), db.Pool, func(ctx context.Context, tx pgx.Tx) error {
			if _, err := orders.Enqueue(ctx, tx, messaging.Envelope[order]{}, nil); err != nil {
				t.Error(err)
			}
			_, _ = tx.Exec(ctx, `select 1/0`)
			return nil
		})
		if !errors.Is(err, pgx.ErrTxCommitRollback) || errors.Is(err, client.ErrCommitUnknown) {
			t.Errorf("pgx: %v", err)
		}
		for name, handle := range map[string]*sql.DB{"pgx through database/sql": db.SQL(t), "a driver that overlooks it": overlooking(t, db)} {
			err := c.InTxSQL(t.Context(), handle, func(ctx context.Context, tx *sql.Tx) error {
				if _, err := orders.EnqueueSQL(ctx, tx, messaging.Envelope[order]{}, nil); err != nil {
					t.Error(err)
				}
				_, _ = tx.ExecContext(ctx, `select 1/0`)
				return nil
			})
			if err == nil || errors.Is(err, client.ErrCommitUnknown) {
				t.Errorf("%s: %v", name, err)
			}
		}
		if n := one[int](t, db, `select count(*) from messaging_outbox`); n != 0 {
			t.Errorf("%d rows of transactions that were rolled back", n)
		}
		c.Close() // no wake-up is on its way any more
		if _, err := db.Exec(t.Context(), `select pg_notify('messaging_outbox', 'end')`); err != nil {
			t.Fatal(err)
		}
		if payload := <-heard; payload != "end" {
			t.Error("relays were woken for a transaction that was rolled back")
		}
	})
}

func TestInTxRollsBack(t *testing.T) {
	t.Parallel()
	db, c := dbtest.New(t), newClient(t, client.Config{})
	orders, handle := newOutbox(t, c, created), db.SQL(t)
	failed := errors.New("the business says no")
	for name, end := range map[string]func() error{
		"an error": func() error { return failed },
		"a panic":  func() error { panic(failed) },
	} {
		for door, run := range map[string]func() error{
			"pgx": func() error {
				return c.InTx(t.Context(), db.Pool, func(ctx context.Context, tx pgx.Tx) error {
					if _, err := orders.Enqueue(ctx, tx, messaging.Envelope[order]{}, nil); err != nil {
						t.Error(err)
					}
					return end()
				})
			},
			"database/sql": func() error {
				return c.InTxSQL(t.Context(), handle, func(ctx context.Context, tx *sql.Tx) error {
					if _, err := orders.EnqueueSQL(ctx, tx, messaging.Envelope[order]{}, nil); err != nil {
						t.Error(err)
					}
					return end()
				})
			},
		} {
			if got := caught(run); got != failed { //nolint:errorlint // the very same value comes back
				t.Errorf("%s, %s: got %v", door, name, got)
			}
		}
	}
	if n := one[int](t, db, `select count(*) from messaging_outbox`); n != 0 {
		t.Errorf("%d rows of transactions that failed", n)
	}
	if n := db.Stat().AcquiredConns(); n != 0 {
		t.Errorf("%d connections were not given back", n)
	}
}

// caught gives the error or the panic of f.
func caught(f func() error) (got any) {
	defer func() {
		if p := recover(); p != nil {
			got = p
		}
	}()
	return f()
}

// TestInTxCommitWithoutAnswer cuts the session while the server works on its COMMIT.
func TestInTxCommitWithoutAnswer(t *testing.T) {
	t.Parallel()
	db := dbtest.New(t)
	c, handle := newClient(t, client.Config{}), db.SQL(t)
	slowCommit(t, db)
	for door, run := range map[string]func(hello func(pid int)) error{
		"pgx": func(hello func(int)) error {
			return c.InTx(t.Context(), db.Pool, func(ctx context.Context, tx pgx.Tx) error {
				var pid int
				err := tx.QueryRow(ctx, `insert into slow values (0) returning pg_backend_pid()`).Scan(&pid)
				hello(pid)
				return err
			})
		},
		"database/sql": func(hello func(int)) error {
			return c.InTxSQL(t.Context(), handle, func(ctx context.Context, tx *sql.Tx) error {
				var pid int
				err := tx.QueryRowContext(ctx, `insert into slow values (0) returning pg_backend_pid()`).Scan(&pid)
				hello(pid)
				return err
			})
		},
	} {
		pids, done := make(chan int, 1), make(chan error, 1)
		go func() { done <- run(func(pid int) { pids <- pid }) }()
		terminateInCommit(t, db, <-pids)
		if err := <-done; !errors.Is(err, client.ErrCommitUnknown) {
			t.Errorf("%s: %v", door, err)
		}
	}
	// A server that refuses the COMMIT leaves no doubt.
	if _, err := db.Exec(t.Context(), `create table strict (n int unique deferrable initially deferred)`); err != nil {
		t.Fatal(err)
	}
	err := c.InTx(t.Context(), db.Pool, func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `insert into strict values (1), (1)`)
		return err
	})
	if err == nil || errors.Is(err, client.ErrCommitUnknown) {
		t.Errorf("a refused COMMIT: %v", err)
	}
}

// slowCommit makes the table slow, whose writers wait in COMMIT for the lock of the table gate.
func slowCommit(t *testing.T, db *dbtest.DB) {
	t.Helper()
	for _, statement := range []string{
		`create table slow (n int)`,
		`create function wait_in_commit() returns trigger language plpgsql as 'begin perform pg_sleep(60); return null; end'`,
		`create constraint trigger wait_in_commit after insert on slow deferrable initially deferred for each row execute function wait_in_commit()`,
	} {
		if _, err := db.Exec(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
}

func terminateInCommit(t *testing.T, db *dbtest.DB, pid int) {
	t.Helper()
	eventually(t, "the transaction is in its COMMIT", func() bool {
		return one[bool](t, db, `select coalesce(bool_or(wait_event = 'PgSleep'), false) from pg_stat_activity where pid = $1`, pid)
	})
	one[bool](t, db, `select pg_terminate_backend($1)`, pid)
}

// overlooking opens the schema by a driver that does not look at the answer to COMMIT.
func overlooking(t *testing.T, db *dbtest.DB) *sql.DB {
	t.Helper()
	config, err := pgx.ParseConfig(db.URL())
	if err != nil {
		t.Fatal(err)
	}
	handle := sql.OpenDB(overlookingConnector{stdlib.GetConnector(*config)})
	t.Cleanup(func() { _ = handle.Close() })
	return handle
}

type overlookingConnector struct{ driver.Connector }

func (c overlookingConnector) Driver() driver.Driver { return nil }

func (c overlookingConnector) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return overlookingConn{conn.(*stdlib.Conn)}, nil
}

type overlookingConn struct{ *stdlib.Conn }

func (c overlookingConn) BeginTx(ctx context.Context, o driver.TxOptions) (driver.Tx, error) {
	tx, err := c.Conn.BeginTx(ctx, o)
	return overlookingTx{tx}, err
}

type overlookingTx struct{ driver.Tx }

func (tx overlookingTx) Commit() error {
	if err := tx.Tx.Commit(); !errors.Is(err, pgx.ErrTxCommitRollback) {
		return err
	}
	return nil
}
