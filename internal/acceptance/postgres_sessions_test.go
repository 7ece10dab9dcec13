package acceptance

import (
	"bytes"
	"sync"
	"testing"
	"time"

	"github.com/backend-skeleton/relay/internal/brokertest"
	"github.com/backend-skeleton/relay/internal/dbtest"
	"github.com/backend-skeleton/relay/internal/testenv"
)

// The session that hears of commits is ended by the server: another one takes its place, and rows do not wait for it.
func TestPostgres_TheListeningSessionIsEnded(t *testing.T) {
	t.Parallel()
	onMajors(t, 18, func(t *testing.T, major int) {
		w := newWorld(t, withDatabase(dbtest.Major(major), dbtest.OwnDatabase()), withKafka(false))
		w.patient()
		capture := w.capture(kafkaDestination)
		p := w.start()
		listener := func(unlike int) (pid int) {
			t.Helper()
			brokertest.Eventually(t, 30*time.Second, "a session to listen", func() bool {
				pid = w.number(`select coalesce(max(pid), 0) from pg_stat_activity
				  where datname = current_database() and pid <> $1 and application_name = 'relay listens' and query like 'listen %'`, unlike)
				return pid != 0
			})
			return pid
		}
		var ids []string
		pid := listener(0)
		for range 3 {
			w.exec(`select pg_terminate_backend($1, 5000)`, pid)
			ids = append(ids, w.insert(kafkaDestination, 10, 5)...)
			w.published(30*time.Second, len(ids))
			pid = listener(pid)
			p.stillReady(kafkaDestination)
		}
		ids = append(ids, w.enqueue(`with n as (select pg_notify('messaging_outbox', '')) select messaging_outbox_add($1, 'order.created', 'shop', '{}')::text from n`, kafkaDestination)...)
		w.published(30*time.Second, len(ids))
		w.oneAttemptEach()
		capture.WaitFor(t, 20*time.Second, ids...)
		once(t, capture, ids)
	})
}

// A firewall forgets connections: nothing comes through on them any more, in neither direction, and nobody is told. Without
// the listening session rows are found by polling; without any of the sessions the relay opens new ones.
func TestPostgres_SessionsThatAFirewallForgot(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		all  bool
	}{{"the listening one", false}, {"all", true}} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, withDatabase(dbtest.OwnDatabase()), withKafka(false))
			w.patient()
			proxy := brokertest.NewProxy(t, w.databaseAddress())
			var mu sync.Mutex
			listening, forgotten := map[int]bool{}, map[int]bool{}
			last := 0
			proxy.Intercept(func(chunk brokertest.Chunk) brokertest.Verdict {
				mu.Lock()
				defer mu.Unlock()
				last = max(last, chunk.Link)
				if chunk.Direction == brokertest.ToServer && bytes.Contains(chunk.Bytes, []byte("listen messaging_outbox")) {
					listening[chunk.Link] = true
				}
				if forgotten[chunk.Link] {
					return brokertest.Swallow
				}
				return brokertest.Forward
			})
			w.env[0] = "RELAY_DATABASE_URL=" + w.databaseURL(proxy.Addr())
			capture := w.capture(kafkaDestination)
			p := w.start()
			ids := w.insert(kafkaDestination, 50, 5)
			w.published(30*time.Second, len(ids))
			listens := func() int {
				mu.Lock()
				defer mu.Unlock()
				return len(listening)
			}
			brokertest.Eventually(t, 30*time.Second, "a session to listen", func() bool { return listens() > 0 })

			mu.Lock()
			for link := range last {
				forgotten[link+1] = c.all || listening[link+1]
			}
			mu.Unlock()
			ids = append(ids, w.insert(kafkaDestination, count(1000, 200), 20)...)
			w.published(60*time.Second, len(ids))
			w.oneAttemptEach()
			capture.WaitFor(t, 20*time.Second, ids...)
			once(t, capture, ids)
			inOrder(t, capture, ids)
			brokertest.Eventually(t, 20*time.Second, "the relay to be ready", func() bool {
				ready, _ := p.readiness(kafkaDestination)
				return ready
			})
			if testenv.Full() { // silence is asked about after 30 s
				brokertest.Eventually(t, 2*time.Minute, "another session to listen", func() bool { return listens() > 1 })
			}
		})
	}
}
