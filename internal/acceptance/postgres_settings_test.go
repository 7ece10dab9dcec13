package acceptance

import (
	"context"
	"fmt"
	"net/url"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/backend-skeleton/relay/internal/brokertest"
	"github.com/backend-skeleton/relay/internal/dbtest"
)

// Whatever the relays' role has for defaults and limits, rows lose nothing by it, and pay for nothing.
func TestPostgres_SettingsOfTheRelaysRole(t *testing.T) {
	t.Parallel()
	limits := []string{"statement_timeout = '300ms'", "lock_timeout = '50ms'", "idle_in_transaction_session_timeout = '200ms'", "idle_session_timeout = '1s'"}
	for _, c := range []struct {
		name     string
		short    int
		settings []string
		locks    int // times that the table is locked against everybody meanwhile
	}{
		{"repeatable read", 16, []string{"default_transaction_isolation = 'repeatable read'"}, 0},
		{"serializable", 18, []string{"default_transaction_isolation = 'serializable'", "default_transaction_deferrable = on"}, 0},
		{"commits that are not waited for", 16, []string{"synchronous_commit = off"}, 0},
		{"short limits", 18, limits, 4},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			onMajors(t, c.short, func(t *testing.T, major int) {
				w := newWorld(t, withDatabase(dbtest.Major(major), dbtest.OwnDatabase()), withKafka(false))
				w.patient()
				if c.locks > 0 && major >= 17 {
					c.settings = append(c.settings[:len(c.settings):len(c.settings)], "transaction_timeout = '2s'")
				}
				capture := w.capture(kafkaDestination)
				relays := []*process{w.start(), w.start()}
				for _, p := range relays { // one whose session ends while it starts ends too
					p.address()
				}
				ids := w.insert(kafkaDestination, 20, 10)
				w.published(30*time.Second, 20)
				w.relaysGet(c.settings...)
				for i := range max(c.locks, 1) {
					ids = append(ids, w.insert(kafkaDestination, count(500, 100), 20)...)
					if i < c.locks {
						w.lockTable(200 * time.Millisecond)
					}
				}
				w.published(60*time.Second, len(ids))
				w.oneAttemptEach()
				capture.WaitFor(t, 20*time.Second, ids...)
				once(t, capture, ids)
				inOrder(t, capture, ids)
				for _, p := range relays {
					brokertest.Eventually(t, 20*time.Second, "the relay to be ready", func() bool {
						ready, _ := p.readiness(kafkaDestination)
						return ready
					})
				}
			})
		})
	}
}

// The relays' role is set to read only, so that their next sessions are: nothing is published, readiness says why, and they
// go on by themselves with the first session that takes writes. One that starts meanwhile says so and ends.
func TestPostgres_ARoleThatIsSetToReadOnly(t *testing.T) {
	t.Parallel()
	onMajors(t, 16, func(t *testing.T, major int) {
		w := newWorld(t, withDatabase(dbtest.Major(major), dbtest.OwnDatabase()), withKafka(false))
		w.patient()
		capture := w.capture(kafkaDestination)
		p := w.start()
		ids := w.insert(kafkaDestination, 20, 10)
		w.published(30*time.Second, 20)
		capture.WaitFor(t, 20*time.Second, ids...)
		w.relaysGet("default_transaction_read_only = on")
		ids = append(ids, w.insert(kafkaDestination, 100, 20)...)
		p.notReady(kafkaDestination, "DATABASE_READ_ONLY", 30*time.Second)
		if n := len(capture.IDs()); n != 20 {
			t.Errorf("%d rows were published that could not be claimed", n-20)
		}
		late := w.start()
		if code := late.wait(30 * time.Second); code == 0 {
			t.Errorf("a start without a database that takes writes ends with 0")
		}
		w.exec(`alter role ` + w.relaysRole() + ` reset default_transaction_read_only`)
		w.published(60*time.Second, len(ids))
		w.oneAttemptEach()
		capture.WaitFor(t, 20*time.Second, ids...)
		once(t, capture, ids)
		inOrder(t, capture, ids)
	})
}

// relaysRole is the login of the world's relays.
func (w *world) relaysRole() string {
	w.t.Helper()
	u, err := url.Parse(w.relayURL)
	if err != nil {
		w.t.Fatal("the database's address is not a URL")
	}
	return u.User.Username()
}

// relaysGet changes settings of the relays' login, and ends its sessions, so that the next ones have them.
func (w *world) relaysGet(settings ...string) {
	w.t.Helper()
	for _, s := range settings {
		w.exec(`alter role ` + w.relaysRole() + ` set ` + s)
	}
	w.exec(`select pg_terminate_backend(pid) from pg_stat_activity where usename = $1`, w.relaysRole())
}

// lockTable against everybody for a while.
func (w *world) lockTable(period time.Duration) {
	w.t.Helper()
	err := pgx.BeginFunc(context.Background(), w.db.Pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(context.Background(), `lock table messaging_outbox in access exclusive mode`); err != nil {
			return err
		}
		_, err := tx.Exec(context.Background(), fmt.Sprintf(`select pg_sleep(%f)`, period.Seconds()))
		return err
	})
	if err != nil {
		w.t.Fatal(err)
	}
}
