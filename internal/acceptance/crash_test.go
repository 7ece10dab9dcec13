package acceptance

import (
	"context"
	"testing"
	"time"

	"github.com/backend-skeleton/relay/internal/brokertest"
)

// A relay or a writer is killed at each point of a message's way. No row is lost and no id changes; a message arrives
// twice only where the take-over could not tell whether the broker has it.
func TestCrash_NoRowIsLostAtAnyPoint(t *testing.T) {
	t.Parallel()
	const rows = 20
	for _, destination := range both {
		for name, crash := range map[string]func(t *testing.T, w *world, db, broker *brokertest.Proxy, c *brokertest.Capture) (ids []string, doubt bool){
			"after commit, before the lease": func(_ *testing.T, w *world, db, _ *brokertest.Proxy, _ *brokertest.Capture) ([]string, bool) {
				p := w.start()
				p.address()
				db.Stall() // it cannot lease any more
				ids := w.insert(destination, rows, 4)
				p.kill()
				db.Resume()
				return ids, false
			},
			"after the lease, before the broker has it": func(t *testing.T, w *world, _, broker *brokertest.Proxy, _ *brokertest.Capture) ([]string, bool) {
				broker.Stall()
				ids := w.insert(destination, rows, 4)
				p := w.start()
				w.leased(t, rows)
				p.kill()
				broker.Cut()
				broker.Resume()
				return ids, true
			},
			"after the broker stored it, before the record": func(t *testing.T, w *world, db, broker *brokertest.Proxy, c *brokertest.Capture) ([]string, bool) {
				p := w.start()
				w.insert(destination, 200, 0) // every channel is open when the broker's answers stop
				w.published(20*time.Second, 200)
				broker.Stall(brokertest.ToClient)
				ids := w.insert(destination, rows, 0)
				c.WaitIDs(t, 200+1, 20*time.Second) // at least the first batch; Kafka sends no other of its partition before the answer
				db.Stall()
				broker.Resume()
				p.kill()
				db.Resume()
				return ids, true
			},
			"while the record's answer is on its way": func(t *testing.T, w *world, db, _ *brokertest.Proxy, c *brokertest.Capture) ([]string, bool) {
				p := w.start()
				p.address()
				db.Delay(300*time.Millisecond, brokertest.ToClient)
				ids := w.insert(destination, rows, 0)
				c.WaitIDs(t, rows, 20*time.Second)
				db.DropReplies() // whatever the record has become, its answer does not arrive
				p.kill()
				db.Pass()
				db.Delay(0)
				return ids, true
			},
		} {
			t.Run(destination+"/"+name, func(t *testing.T) {
				t.Parallel()
				w := newWorld(t, withKafka(true, brokertest.Partitions(2)), withRabbit(true))
				w.t = t
				db := brokertest.NewProxy(t, w.databaseAddress())
				w.env[0] = "RELAY_DATABASE_URL=" + w.databaseURL(db.Addr())
				broker := map[string]*brokertest.Proxy{kafkaDestination: w.kafkaProxy, rabbitDestination: w.rabbitProxy}[destination]
				capture := w.capture(destination)
				ids, doubt := crash(t, w, db, broker, capture)
				all := w.number(`select count(*) from messaging_outbox`)
				w.start()
				w.published(lease+20*time.Second, all)
				capture.WaitFor(t, 10*time.Second, ids...)
				if n := len(capture.IDs()); n != all {
					t.Errorf("%d ids captured, want %d", n, all)
				}
				if destination == kafkaDestination {
					inOrder(t, capture, w.query(`select message_id::text from messaging_outbox order by seq`))
				}
				doubted := map[string]bool{}
				for _, id := range w.query(`select message_id::text from messaging_outbox where ambiguous_attempts > 0`) {
					doubted[id] = true
				}
				if !doubt && len(doubted) > 0 {
					t.Errorf("%d rows are said to be in doubt", len(doubted))
				}
				for _, id := range capture.Duplicates() {
					if !doubted[id] {
						t.Errorf("a row was sent twice that was never in doubt")
					}
				}
			})
		}
	}
}

// What was never committed is never published, whatever happens to the writer.
func TestCrash_AnUncommittedRowIsNeverPublished(t *testing.T) {
	t.Parallel()
	w := newWorld(t, withKafka(false))
	w.patient()
	capture := w.capture(kafkaDestination)
	p := w.start()
	p.address()
	conn, err := w.db.Acquire(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	for _, sql := range []string{"begin", `select messaging_outbox_add('` + kafkaDestination + `', 'order.created', 'shop', '{}')`} {
		if _, err := conn.Exec(context.Background(), sql); err != nil {
			t.Fatal(err)
		}
	}
	pid := conn.Conn().PgConn().PID()
	w.exec(`select pg_terminate_backend($1)`, pid) // the writer is gone before its commit
	conn.Release()
	ids := w.insert(kafkaDestination, 5, 0)
	w.published(20*time.Second, 5)
	capture.WaitIDs(t, 5, 10*time.Second)
	once(t, capture, ids)
}

// leased waits until n rows are shown CLAIMED.
func (w *world) leased(t *testing.T, n int) {
	t.Helper()
	brokertest.Eventually(t, 20*time.Second, "rows to be leased", func() bool {
		return w.number(`select count(*) from messaging_outbox_status where status = 'CLAIMED'`) >= n
	})
}
