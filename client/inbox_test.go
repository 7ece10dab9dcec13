package client_test

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/backend-skeleton/relay/client"
	"github.com/backend-skeleton/relay/internal/dbtest"
	"github.com/backend-skeleton/relay/messaging"
)

// effect is what the tests do in the transaction of the inbox, through either door.
type effect func(ctx context.Context, exec func(statement string, args ...any) error) error

// handler is an inbox behind one door.
type handler func(ctx context.Context, m client.Message, fn effect) (client.Outcome, error)

// throughInbox runs the test for each door and server. The table effect counts side effects.
func throughInbox(t *testing.T, test func(t *testing.T, db *dbtest.DB, open func(client.InboxConfig) handler)) {
	t.Parallel()
	dbtest.Majors(t, func(t *testing.T, major int) {
		for _, door := range []string{"pgx", "database/sql"} {
			t.Run(door, func(t *testing.T) {
				t.Parallel()
				db := dbtest.New(t, dbtest.Major(major))
				if _, err := db.Exec(t.Context(), `create table effect (n int)`); err != nil {
					t.Fatal(err)
				}
				handle := db.SQL(t)
				test(t, db, func(c client.InboxConfig) handler {
					if door == "pgx" {
						return pgxHandler(t, db, c)
					}
					return sqlHandler(t, handle, c)
				})
			})
		}
	})
}

func pgxHandler(t *testing.T, db *dbtest.DB, c client.InboxConfig) handler {
	t.Helper()
	inbox, err := client.NewInbox(db.Pool, c)
	if err != nil {
		t.Fatal(err)
	}
	return func(ctx context.Context, m client.Message, fn effect) (client.Outcome, error) {
		return inbox.Handle(ctx, m, func(ctx context.Context, tx pgx.Tx) error {
			return fn(ctx, func(s string, args ...any) error { _, err := tx.Exec(ctx, s, args...); return err })
		})
	}
}

func sqlHandler(t *testing.T, db *sql.DB, c client.InboxConfig) handler {
	t.Helper()
	inbox, err := client.NewInboxSQL(db, c)
	if err != nil {
		t.Fatal(err)
	}
	return func(ctx context.Context, m client.Message, fn effect) (client.Outcome, error) {
		return inbox.HandleSQL(ctx, m, func(ctx context.Context, tx *sql.Tx) error {
			return fn(ctx, func(s string, args ...any) error { _, err := tx.ExecContext(ctx, s, args...); return err })
		})
	}
}

func message(payload string) client.Message {
	return client.Message{ID: messaging.NewMessageID(), Type: "order.created", Hash: messaging.HashPayload([]byte(payload))}
}

func count(n int) effect {
	return func(_ context.Context, exec func(string, ...any) error) error {
		return exec(`insert into effect values ($1)`, n)
	}
}

func TestInboxOutcomes(t *testing.T) {
	throughInbox(t, func(t *testing.T, db *dbtest.DB, open func(client.InboxConfig) handler) {
		handle := open(client.InboxConfig{Consumer: "billing", Retention: time.Hour})
		m := message("a")
		failed := errors.New("not today")
		if outcome, err := handle(t.Context(), m, func(ctx context.Context, exec func(string, ...any) error) error {
			return errors.Join(count(0)(ctx, exec), failed)
		}); !errors.Is(err, failed) || outcome != 0 {
			t.Errorf("failed side effect: %v, %v", outcome, err)
		}
		if n := one[int](t, db, `select (select count(*) from effect) + (select count(*) from messaging_inbox)`); n != 0 {
			t.Fatal("a failed side effect left something behind")
		}
		other := m
		other.Hash = messaging.HashPayload([]byte("b"))
		for _, step := range []struct {
			m    client.Message
			want client.Outcome
		}{{m, client.First}, {m, client.Duplicate}, {other, client.IntegrityFailure}, {m, client.Duplicate}, {message("a"), client.First}} {
			if outcome, err := handle(t.Context(), step.m, count(1)); outcome != step.want || err != nil {
				t.Errorf("%v, %v; want %v", outcome, err, step.want)
			}
		}
		if n := one[int](t, db, `select count(*) from effect`); n != 2 {
			t.Errorf("%d side effects, want 2", n)
		}
		if !one[bool](t, db, `select bool_and(consumer_name = 'billing' and message_type = 'order.created' and processed_at > received_at
				and payload_hash = $1 and expires_at between now() + interval '59 minutes' and now() + interval '1 hour') from messaging_inbox`, string(m.Hash)) {
			t.Error("the reservation's columns are wrong")
		}
		if _, err := handle(t.Context(), client.Message{}, count(1)); !errors.Is(err, messaging.ErrValidation) {
			t.Errorf("a message without id: %v", err)
		}
	})
}

// TestB49_TwoConsumersOfOneMessage: each consumer has its own memory.
func TestB49_TwoConsumersOfOneMessage(t *testing.T) {
	throughInbox(t, func(t *testing.T, db *dbtest.DB, open func(client.InboxConfig) handler) {
		m := message("a")
		consumers := []handler{open(client.InboxConfig{Consumer: "billing"}), open(client.InboxConfig{Consumer: "mail"})}
		for _, want := range []client.Outcome{client.First, client.Duplicate} {
			for i, handle := range consumers {
				if outcome, err := handle(t.Context(), m, count(i)); outcome != want || err != nil {
					t.Errorf("consumer %d: %v, %v; want %v", i, outcome, err, want)
				}
			}
		}
		if n := one[int](t, db, `select count(*) from messaging_inbox join effect on n = (consumer_name = 'mail')::int`); n != 2 {
			t.Errorf("%d reservations with one side effect each, want 2", n)
		}
	})
}

// TestB50_SimultaneousDuplicates: two copies at the same moment in two processes; the reservation comes first, so the
// second waits and then skips.
func TestB50_SimultaneousDuplicates(t *testing.T) {
	throughInbox(t, func(t *testing.T, db *dbtest.DB, open func(client.InboxConfig) handler) {
		left, right := open(client.InboxConfig{Consumer: "billing"}), open(client.InboxConfig{Consumer: "billing"})
		const rounds = 20
		for round := range rounds {
			m := message("a")
			var running, overlap atomic.Int32
			var outcomes [2]client.Outcome
			var copies sync.WaitGroup
			for i, handle := range []handler{left, right} {
				copies.Go(func() {
					var err error
					outcomes[i], err = handle(t.Context(), m, func(ctx context.Context, exec func(string, ...any) error) error {
						overlap.Add(running.Add(1) - 1)
						defer running.Add(-1)
						return errors.Join(exec(`select pg_sleep(0.01)`), count(round)(ctx, exec))
					})
					if err != nil {
						t.Error(err)
					}
				})
			}
			copies.Wait()
			if outcomes[0] == outcomes[1] || outcomes[0]+outcomes[1] != client.First+client.Duplicate || overlap.Load() != 0 {
				t.Errorf("outcomes %v, %d ran beside each other", outcomes, overlap.Load())
			}
		}
		if n := one[int](t, db, `select count(distinct n) from effect where (select count(*) from effect) = $1`, rounds); n != rounds {
			t.Errorf("%d rounds with one side effect each, want %d", n, rounds)
		}
	})
}

// TestB51_DuplicateIsNoError: a duplicate raises nothing, logs nothing on the server, and the next message goes on.
func TestB51_DuplicateIsNoError(t *testing.T) {
	throughInbox(t, func(t *testing.T, db *dbtest.DB, open func(client.InboxConfig) handler) {
		handle := open(client.InboxConfig{Consumer: "billing"})
		x, y := message("x"), message("y")
		var got []string
		for _, m := range []client.Message{x, x, y} {
			outcome, err := handle(t.Context(), m, count(1))
			if err != nil {
				t.Error(err)
			}
			got = append(got, outcome.String())
		}
		if strings.Join(got, " ") != "FIRST DUPLICATE FIRST" {
			t.Errorf("outcomes %v", got)
		}
		if n := one[int](t, db, `select count(*) from effect`); n != 2 {
			t.Errorf("%d side effects, want 2", n)
		}
	})
}

func TestInboxBusy(t *testing.T) {
	throughInbox(t, func(t *testing.T, db *dbtest.DB, open func(client.InboxConfig) handler) {
		m := message("a")
		first := open(client.InboxConfig{Consumer: "billing"})
		bounded := open(client.InboxConfig{Consumer: "billing", LockWait: 30 * time.Millisecond})
		outcome, err := first(t.Context(), m, func(ctx context.Context, exec func(string, ...any) error) error {
			if outcome, err := bounded(ctx, m, count(2)); outcome != client.Busy || err != nil {
				t.Errorf("bounded wait: %v, %v", outcome, err)
			}
			// By default the wait ends before the handler's time does.
			short, cancel := context.WithTimeout(ctx, 2*time.Second)
			defer cancel()
			if outcome, err := first(short, m, count(2)); outcome != client.Busy || err != nil {
				t.Errorf("wait within the context: %v, %v", outcome, err)
			}
			return count(1)(ctx, exec)
		})
		if outcome != client.First || err != nil {
			t.Errorf("%v, %v", outcome, err)
		}
		if outcome, err := bounded(t.Context(), m, count(2)); outcome != client.Duplicate || err != nil {
			t.Errorf("after the commit: %v, %v", outcome, err)
		}
		if n := one[int](t, db, `select sum(n) from effect`); n != 1 {
			t.Errorf("sum of side effects %d, want 1", n)
		}
	})
}

// TestInboxTakesOverARolledBackTry: the second try waits for the first, which fails; then it has the message.
func TestInboxTakesOverARolledBackTry(t *testing.T) {
	throughInbox(t, func(t *testing.T, db *dbtest.DB, open func(client.InboxConfig) handler) {
		handle, m := open(client.InboxConfig{Consumer: "billing"}), message("a")
		second := make(chan client.Outcome, 1)
		_, err := handle(t.Context(), m, func(context.Context, func(string, ...any) error) error {
			go func() {
				outcome, err := handle(t.Context(), m, count(1))
				if err != nil {
					t.Error(err)
				}
				second <- outcome
			}()
			eventually(t, "the second try waits for the first", func() bool {
				return one[bool](t, db, `select exists (select from pg_locks where not granted and locktype = 'transactionid'
					and pid in (select pid from pg_stat_activity where query like '%messaging_inbox%'))`)
			})
			return errors.New("the first try fails")
		})
		if outcome := <-second; err == nil || outcome != client.First {
			t.Errorf("first %v, second %v", err, outcome)
		}
	})
}

// TestInboxLeavesTheSessionsSettings: the bound of the wait is not the bound of the side effect's own statements.
func TestInboxLeavesTheSessionsSettings(t *testing.T) {
	t.Parallel()
	db := dbtest.New(t)
	inbox, err := client.NewInbox(db.Pool, client.InboxConfig{Consumer: "billing", LockWait: 7 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := inbox.Handle(t.Context(), message("a"), func(ctx context.Context, tx pgx.Tx) error {
			var got string
			if err := tx.QueryRow(ctx, `show lock_timeout`).Scan(&got); err != nil || got != "0" {
				t.Errorf("lock_timeout of the side effect is %s, %v", got, err)
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
}

func TestInboxRepeatsSerializationFailures(t *testing.T) {
	throughInbox(t, func(t *testing.T, db *dbtest.DB, open func(client.InboxConfig) handler) {
		for _, state := range []string{"40001", "40P01"} {
			for _, c := range []struct{ allowed, failures, runs int }{{0, 3, 4}, {1, 1, 2}, {1, 2, 2}, {-1, 1, 1}} {
				runs := 0
				outcome, err := open(client.InboxConfig{Consumer: "billing", RetrySerialization: c.allowed})(t.Context(), message("a"),
					func(ctx context.Context, exec func(string, ...any) error) error {
						if runs++; runs <= c.failures {
							return exec(`do $$ begin raise exception 'collision' using errcode = '` + state + `'; end $$`)
						}
						return count(1)(ctx, exec)
					})
				if runs != c.runs || (outcome == client.First) != (c.runs > c.failures) || (err == nil) != (outcome == client.First) {
					t.Errorf("%s, %+v: %d runs, %v, %v", state, c, runs, outcome, err)
				}
			}
		}
		if n := one[int](t, db, `select count(*) from effect where (select count(*) from messaging_inbox) = (select count(*) from effect)`); n != 4 {
			t.Errorf("%d side effects, want one for each of 4 successes", n)
		}
	})
}

func TestInboxCommitThatWasARollback(t *testing.T) {
	throughInbox(t, func(t *testing.T, db *dbtest.DB, open func(client.InboxConfig) handler) {
		outcome, err := open(client.InboxConfig{Consumer: "billing"})(t.Context(), message("a"), func(_ context.Context, exec func(string, ...any) error) error {
			_ = exec(`select 1/0`)
			return nil
		})
		var pg *pgconn.PgError
		if outcome != 0 || !errors.As(err, &pg) || pg.Code != "25P02" {
			t.Errorf("%v, %v", outcome, err)
		}
		if n := one[int](t, db, `select count(*) from messaging_inbox`); n != 0 {
			t.Error("a reservation without side effect")
		}
	})
}

// TestInboxCommitWithoutAnswer: the next try resolves the doubt, by its reservation alone.
func TestInboxCommitWithoutAnswer(t *testing.T) {
	throughInbox(t, func(t *testing.T, db *dbtest.DB, open func(client.InboxConfig) handler) {
		slowCommit(t, db)
		handle, m := open(client.InboxConfig{Consumer: "billing"}), message("a")
		var got error
		done := make(chan struct{})
		go func() {
			defer close(done)
			_, got = handle(context.Background(), m, func(_ context.Context, exec func(string, ...any) error) error {
				return exec(`insert into slow values (0)`)
			})
		}()
		var pid int
		eventually(t, "the COMMIT is open", func() bool {
			return db.QueryRow(context.Background(), `select pid from pg_locks join pg_stat_activity using (pid)
				where wait_event = 'PgSleep' and relation = 'slow'::regclass`).Scan(&pid) == nil
		})
		terminateInCommit(t, db, pid)
		<-done
		if !errors.Is(got, client.ErrCommitUnknown) {
			t.Errorf("a commit without answer: %v", got)
		}
		if outcome, err := handle(t.Context(), m, count(1)); outcome != client.First || err != nil {
			t.Errorf("the next try: %v, %v", outcome, err)
		}
	})
}

func TestNewInboxRefuses(t *testing.T) {
	t.Parallel()
	for _, c := range []client.InboxConfig{{}, {Consumer: "Bad Name"}, {Consumer: "a", Retention: -1}, {Consumer: "a", LockWait: -1}, {Consumer: "a"}} {
		if _, err := client.NewInbox(nil, c); !errors.Is(err, messaging.ErrConfiguration) {
			t.Errorf("%+v: %v", c, err)
		}
	}
	if _, err := client.NewInboxSQL(nil, client.InboxConfig{Consumer: "a"}); !errors.Is(err, messaging.ErrConfiguration) {
		t.Errorf("no database: %v", err)
	}
	inbox, err := client.NewInboxSQL(new(sql.DB), client.InboxConfig{Consumer: "a"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := inbox.Handle(t.Context(), message("a"), nil); err == nil || !strings.Contains(err.Error(), "HandleSQL") {
		t.Errorf("the wrong door: %v", err)
	}
}
