package acceptance

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/backend-skeleton/relay/internal/brokertest"
)

// connect to whichever of the servers in the address takes writes.
func connect(ctx context.Context, address string) (*pgx.Conn, error) {
	return pgx.Connect(ctx, address)
}

// bothNodes is the address by which clients follow a promotion: both servers, and whichever takes writes.
func bothNodes(t *testing.T, primary, standby string) string {
	t.Helper()
	one, err := url.Parse(primary)
	if err != nil {
		t.Fatal("the server's address is not a URL")
	}
	two, err := url.Parse(standby)
	if err != nil {
		t.Fatal("the standby's address is not a URL")
	}
	one.Host += "," + two.Host
	q := one.Query()
	q.Set("target_session_attrs", "read-write")
	one.RawQuery = q.Encode()
	return one.String()
}

// promote makes the standby the server that takes writes, and has the test follow it.
func (w *world) promote(standby string) {
	w.t.Helper()
	brokertest.Eventually(w.t, 30*time.Second, "the standby to be promoted", func() bool {
		answer, err := ask(w.t, standby, `select case when pg_is_in_recovery() then pg_promote() else true end::text`)
		return err == nil && answer == "true"
	})
	w.db.Reset()
	w.writers.Reset()
}

// replicated waits until the standby has all that the primary has.
func (w *world) replicated() {
	w.t.Helper()
	brokertest.Eventually(w.t, 30*time.Second, "the standby to have everything", func() bool {
		return w.number(`select count(*) from pg_stat_replication where application_name = 'standby' and replay_lsn >= pg_current_wal_lsn()`) == 1
	})
}

// The primary dies under load, and its synchronous standby takes its place: not one row is lost or sent twice, no order
// breaks, no lease is given twice, and relays and writers follow by an address that names both servers.
func TestPostgres_APromotedSynchronousStandbyLosesNothing(t *testing.T) {
	t.Parallel()
	onMajors(t, 18, func(t *testing.T, major int) {
		server, database := ownServer(t, brokertest.PostgresOptions{Major: major, Standby: true})
		w := newWorld(t, database, withKafka(false), withRabbit(false))
		topic := brokertest.Topic(t, brokertest.Require(t, "KAFKA_BOOTSTRAP"))
		w.kafkaTo("kafka.written", topic)
		capture := brokertest.CaptureKafka(t, brokertest.Require(t, "KAFKA_BOOTSTRAP"), topic)
		w.exec(`alter system set synchronous_standby_names = 'standby'`)
		w.exec(`select pg_reload_conf()`)
		brokertest.Eventually(t, 30*time.Second, "the standby to be synchronous", func() bool {
			return w.number(`select count(*) from pg_stat_replication where sync_state = 'sync'`) == 1
		})
		epochs := w.watchEpochs()
		var all written
		w.throughFault(func() {
			writing := w.keepWriting("kafka.written", 20)
			w.some("kafka.written")
			server.Kill(1)
			w.promote(server.Env(fmt.Sprint("PG_STANDBY_URL_", major)))
			before := w.number(`select count(*) from messaging_outbox where destination = 'kafka.written'`)
			brokertest.Eventually(t, 30*time.Second, "the writer to go on", func() bool {
				return w.number(`select count(*) from messaging_outbox where destination = 'kafka.written'`) > before+20
			})
			all = writing()
		})
		w.arrived(capture, all)
		epochs()
	})
}

// some waits until rows of the destination are published.
func (w *world) some(destination string) {
	w.t.Helper()
	brokertest.Eventually(w.t, 30*time.Second, "rows of "+destination+" to be published", func() bool {
		return w.number(`select count(*) from messaging_outbox where destination = $1 and status = 'PUBLISHED'`, destination) > 20
	})
}

// An asynchronous standby takes the primary's place without the last that happened there. What the guarantees say of it is
// all that happens: commits that it does not have are gone, with the services' own; what was published of them stays with
// the consumers; rows of which it does not know that they were published go out again, under the same id; everything else is
// as ever.
func TestPostgres_APromotedAsynchronousStandbyForgetsItsLast(t *testing.T) {
	t.Parallel()
	onMajors(t, 16, func(t *testing.T, major int) {
		server, database := ownServer(t, brokertest.PostgresOptions{Major: major, Standby: true})
		w := newWorld(t, database, withKafka(false))
		w.patient()
		capture := w.capture(kafkaDestination)
		epochs := w.watchEpochs()
		relays := []*process{w.start(), w.start()}
		known := w.insert(kafkaDestination, 60, 10) // and known to be published
		w.published(60*time.Second, 60)
		for _, p := range relays {
			p.pause()
		}
		unsent := w.insert(kafkaDestination, 60, 10) // and not known to be published
		w.replicated()
		server.Kill(2)
		for _, p := range relays {
			p.resume()
		}
		w.published(60*time.Second, 120)
		lost := w.insert(kafkaDestination, 60, 10) // not known at all, but published
		w.published(60*time.Second, 180)

		server.Kill(1)
		server.StartNode(2)
		w.promote(server.Env(fmt.Sprint("PG_STANDBY_URL_", major)))
		if n := w.sent(known); n != 60 {
			t.Fatalf("the standby knows of %d published rows, want 60: the test shows nothing", n)
		}
		later := w.insert(kafkaDestination, 60, 10)
		w.published(60*time.Second, 180)
		if n := w.number(`select count(*) from messaging_outbox where message_id = any($1::uuid[])`, lost); n != 0 {
			t.Errorf("%d rows are there that the standby never had", n)
		}
		capture.WaitFor(t, 20*time.Second, slices.Concat(known, unsent, lost, later)...)
		counts := capture.IDs()
		for _, c := range []struct {
			what string
			ids  []string
			want int
		}{{"known to be published", known, 1}, {"published without its knowledge", unsent, 2}, {"gone", lost, 1}, {"added later", later, 1}} {
			for _, id := range c.ids {
				if counts[id] != c.want {
					t.Errorf("a row %s was published %d times, want %d", c.what, counts[id], c.want)
				}
			}
		}
		inOrder(t, capture, slices.Concat(known, unsent, lost, later))
		epochs()
	})
}
