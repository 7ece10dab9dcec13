package acceptance

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/backend-skeleton/relay/internal/brokertest"
	"github.com/backend-skeleton/relay/internal/testenv"
)

// A server that takes no writes is no server to publish from: nothing goes out whose claim was not written, readiness
// says why, and as soon as writes are taken everything goes on by itself.
func TestB65_AReadOnlyServerIsWaitedFor(t *testing.T) {
	t.Parallel()
	_, database := ownServer(t, brokertest.PostgresOptions{Major: 17})
	w := newWorld(t, database, withKafka(false))
	w.patient()
	w.set("database", m{"pool-max": 4})
	w.env = append(w.env, "PGAPPNAME=relay-under-test")
	capture := w.capture(kafkaDestination)
	p := w.start()
	w.insert(kafkaDestination, 20, 0)
	w.published(30*time.Second, 20)
	capture.WaitIDs(t, 20, 10*time.Second)

	p.pause()
	ids := w.insert(kafkaDestination, 200, 20)
	w.readOnly("on")
	p.resume()
	p.notReady(kafkaDestination, "DATABASE_READ_ONLY", 20*time.Second)
	if code, _ := p.get("/readyz"); code != 503 {
		t.Errorf("readiness is %d", code)
	}
	until := time.Now().Add(time.Duration(count(20, 3)) * time.Second)
	most := 0
	for time.Now().Before(until) {
		most = max(most, w.number(`select count(*) from pg_stat_activity where application_name = 'relay-under-test'`))
	}
	if n := len(capture.IDs()); n != 20 {
		t.Errorf("%d rows were published that nobody could claim", n-20)
	}
	if most > 5 { // the listening one is not of the pool
		t.Errorf("up to %d connections, want at most 5", most)
	}
	w.readOnly("off")
	w.published(10*time.Second, 220)
	capture.WaitFor(t, 10*time.Second, ids...)
	w.oneAttemptEach()
	brokertest.Eventually(t, 10*time.Second, "the relay to be ready again", func() bool {
		ready, _ := p.readiness(kafkaDestination)
		return ready
	})
	if !p.alive() {
		t.Error("the relay ended")
	}
}

// readOnly changes all sessions of the world's own server at once, its own one aside.
func (w *world) readOnly(setting string) {
	w.t.Helper()
	conn, err := pgx.Connect(context.Background(), w.db.URL())
	if err != nil {
		w.t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.Background()) }()
	for _, sql := range []string{`set default_transaction_read_only = off`, `alter system set default_transaction_read_only = ` + setting, `select pg_reload_conf()`} {
		if _, err := conn.Exec(context.Background(), sql); err != nil {
			w.t.Fatal(err)
		}
	}
	brokertest.Eventually(w.t, 10*time.Second, "the setting to arrive", func() bool {
		return w.query(`show default_transaction_read_only`)[0] == setting
	})
}

// patient gives the brokers more time to answer than others do: what is asked here is what the database's troubles cost,
// not a busy machine's.
func (w *world) patient() {
	w.set("relay", m{"lease": patientLease.String()})
	for _, d := range w.messaging()["destinations"].(m) {
		d.(m)["producer"].(m)["timeout"] = (patientLease * 2 / 3).String()
	}
}

const patientLease = 9 * time.Second

func (w *world) oneAttemptEach() {
	w.t.Helper()
	for _, paid := range w.query(`select format('%s rows, last failure %s, by %s relays', count(*), last_failure_code, count(distinct published_by))
	  from messaging_outbox where attempts <> 1 or ambiguous_attempts <> 0 or crash_attempts <> 0 group by last_failure_code`) {
		w.t.Errorf("paid for troubles of the database: %s", paid)
	}
}

// A server that is killed and comes back costs nothing: what the brokers confirmed is recorded afterwards.
func TestPostgres_KilledAndBack(t *testing.T) {
	t.Parallel()
	onMajors(t, 16, func(t *testing.T, major int) {
		server, database := ownServer(t, brokertest.PostgresOptions{Major: major})
		w := newWorld(t, database, withKafka(false), withRabbit(false))
		w.throughFault(func() {
			server.Kill(1)
			server.StartNode(1)
		})
	})
}

// A server that stands still for longer than every lease costs nothing either: no relay robs the other.
func TestPostgres_PausedForLongerThanALease(t *testing.T) {
	t.Parallel()
	onMajors(t, 18, func(t *testing.T, major int) {
		server, database := ownServer(t, brokertest.PostgresOptions{Major: major})
		w := newWorld(t, database, withKafka(false), withRabbit(false))
		w.throughFault(func() {
			server.Pause(1)
			<-time.After(time.Duration(count(20, 11)) * time.Second) // the length of the fault
			server.Resume(1)
		})
	})
}

// A relay does not reach the server that was killed and came back, and its leases run out there. The other one knows that
// the server is young, and leaves it a lease to come back: it finds its lanes as it had left them.
func TestPostgres_AYoungServerIsNoWitness(t *testing.T) {
	testenv.FullTier(t) // the times of the leases must fit between the steps
	t.Parallel()
	onMajors(t, 17, func(t *testing.T, major int) {
		server, database := ownServer(t, brokertest.PostgresOptions{Major: major})
		w := newWorld(t, database, withKafka(false))
		w.patient()
		capture := w.capture(kafkaDestination)
		proxy := brokertest.NewProxy(t, w.databaseAddress())
		near := w.start()
		near.address()
		direct := w.env[0]
		w.env[0] = "RELAY_DATABASE_URL=" + w.databaseURL(proxy.Addr())
		var known []string
		brokertest.Eventually(t, time.Minute, "the first relay to be known", func() bool {
			known = w.query(`select id::text from messaging_outbox_relay`)
			return len(known) == 1
		})
		far := w.start()
		w.env[0] = direct
		writing := w.keepWriting(kafkaDestination, 50)
		var lanes []string
		brokertest.Eventually(t, time.Minute, "the second relay to have its share", func() bool {
			lanes = w.query(`select lane || '/' || epoch from messaging_outbox_lane where owner is not null and owner <> $1::uuid`, known[0])
			return len(lanes) > 3
		})
		proxy.Down()
		<-time.After(patientLease * 2 / 3)
		server.Kill(1)
		server.StartNode(1)
		w.db.Reset()
		brokertest.Eventually(t, time.Minute, "the leases to run out", func() bool {
			return w.number(`select count(*) from messaging_outbox_lane where lane || '/' || epoch = any($1) and lease_until > clock_timestamp()`, lanes) == 0
		})
		<-time.After(patientLease / 6) // in which another relay would take them
		proxy.Up(t)
		brokertest.Eventually(t, time.Minute, "the second relay to renew its lanes", func() bool {
			return w.number(`select count(*) from messaging_outbox_lane where lane || '/' || epoch = any($1) and lease_until > clock_timestamp()`, lanes) > 0 || t.Failed()
		})
		if n := w.number(`select count(*) from messaging_outbox_lane where owner = $1::uuid and lane = any($2::integer[])`, known[0], numbers(lanes)); n > 0 {
			t.Errorf("%d lanes were taken from a relay that lives", n)
		}
		all := writing()
		w.published(time.Minute, w.number(`select count(*) from messaging_outbox`))
		w.arrived(capture, all)
		far.stillReady(kafkaDestination)
	})
}

// numbers of lanes that are written as lane/epoch.
func numbers(lanes []string) (numbers []int) {
	for _, l := range lanes {
		var n int
		if _, err := fmt.Sscanf(l, "%d/", &n); err == nil {
			numbers = append(numbers, n)
		}
	}
	return numbers
}

// throughFault publishes rows through two relays while the fault happens to the database, and finds each once, with one
// attempt.
func (w *world) throughFault(fault func()) {
	w.t.Helper()
	w.patient()
	captures := map[string]*brokertest.Capture{}
	ids := map[string][]string{}
	for _, d := range both {
		captures[d] = w.capture(d)
	}
	relays := []*process{w.start(), w.start()}
	n := count(5000, 1500)
	for _, d := range both {
		ids[d] = w.insert(d, n, 50)
	}
	brokertest.Eventually(w.t, 30*time.Second, "rows to flow", func() bool {
		return w.number(`select count(*) from messaging_outbox where status = 'PUBLISHED'`) > 0
	})
	fault()
	brokertest.Eventually(w.t, 60*time.Second, "all rows to be published", func() bool {
		var left int
		err := w.db.QueryRow(context.Background(), `select count(*) from messaging_outbox where status <> 'PUBLISHED'`).Scan(&left)
		return err == nil && left == 0
	})
	w.oneAttemptEach()
	for _, d := range both {
		captures[d].WaitFor(w.t, 10*time.Second, ids[d]...)
		once(w.t, captures[d], ids[d])
		for _, p := range relays {
			p.stillReady(d)
		}
	}
	inOrder(w.t, captures[kafkaDestination], ids[kafkaDestination])
}
