package acceptance

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/backend-skeleton/relay/internal/brokertest"
)

// The disk under the tables is full: the relay lives, says so, spends no attempt, sends nothing twice, and goes on by itself
// when there is room. Where the log is full as well, the server goes down, and the relay waits for it to come back.
func TestPostgres_AFullDiskIsWaitedFor(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("not proved here: a small disk for the server needs root")
	}
	for _, c := range []struct {
		name, reason string
		short        int
		log          bool
	}{{"tables", "DATABASE_FULL", 16, false}, {"log", "DATABASE_UNAVAILABLE", 18, true}} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			onMajors(t, c.short, func(t *testing.T, major int) {
				server, database := ownServer(t, brokertest.PostgresOptions{Major: major, Disk: 160})
				w := newWorld(t, database, withKafka(false))
				w.patient()
				w.exec(`alter table messaging_outbox set (fillfactor = 100)`) // an outcome needs a page that is not there
				capture := w.capture(kafkaDestination)
				p := w.start()
				ids := w.insert(kafkaDestination, 20, 10)
				w.published(30*time.Second, 20)

				p.pause()
				ids = append(ids, w.insert(kafkaDestination, count(5000, 1500), 20)...)
				server.Fill()
				if c.log { // it needs a new file of its log at once
					_, _ = ask(t, server.Env(fmt.Sprint("PG_URL_", major)), `select pg_switch_wal()::text`)
					_, _ = ask(t, server.Env(fmt.Sprint("PG_URL_", major)), `select pg_switch_wal()::text from pg_create_restore_point('full')`)
				}
				if !c.log {
					ids = append(ids, w.insertUntilRefused(kafkaDestination)...)
				}
				p.resume()
				p.notReady(kafkaDestination, c.reason, 60*time.Second)
				if code, _ := p.get("/healthz"); code != 200 {
					t.Errorf("alive is answered by %d", code)
				}
				if code, _ := p.get("/readyz"); code != 503 {
					t.Errorf("ready is answered by %d", code)
				}

				server.Free()
				if c.log {
					server.StartNode(1) // as its supervisor does, unless it lives
				}
				brokertest.Eventually(t, 60*time.Second, "the server to be back", func() bool {
					_, err := ask(t, w.db.URL(), `select 'yes'`)
					return err == nil
				})
				w.db.Reset()
				w.published(60*time.Second, len(ids))
				w.oneAttemptEach()
				capture.WaitFor(t, 20*time.Second, ids...)
				once(t, capture, ids)
				inOrder(t, capture, ids)
				brokertest.Eventually(t, 20*time.Second, "the relay to be ready again", func() bool {
					ready, _ := p.readiness(kafkaDestination)
					return ready
				})
			})
		})
	}
}

// insertUntilRefused takes what room the table's own pages still have, so that an outcome needs a new one.
func (w *world) insertUntilRefused(destination string) (ids []string) {
	w.t.Helper()
	for range 10_000 {
		var id string
		err := w.writers.QueryRow(context.Background(),
			`select messaging_outbox_add($1, 'order.created', 'shop', '{}', ordering_key => 'k1')::text`, destination).Scan(&id)
		if full := (*pgconn.PgError)(nil); errors.As(err, &full) && full.Code == "53100" {
			return ids
		}
		if err != nil {
			w.t.Fatal(err)
		}
		ids = append(ids, id)
	}
	w.t.Fatal("the disk does not get full")
	return nil
}
