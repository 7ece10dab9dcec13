package acceptance

import (
	"fmt"
	"testing"
	"time"

	"github.com/backend-skeleton/relay/internal/brokertest"
	"github.com/backend-skeleton/relay/internal/dbtest"
	"github.com/backend-skeleton/relay/internal/testenv"
)

// A broker that does not answer holds no transaction open, and rows do not stay claimed by a relay that lives and has
// no answer; how long the oldest of them waits shows in the metrics.
func TestB81_NoTransactionWaitsForABroker(t *testing.T) {
	t.Parallel()
	for _, destination := range both {
		t.Run(destination, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, withKafka(true), withRabbit(true), withDatabase(dbtest.OwnDatabase()))
			w.set("relay", m{"attempts": 1000})
			proxy := map[string]*brokertest.Proxy{kafkaDestination: w.kafkaProxy, rabbitDestination: w.rabbitProxy}[destination]
			w.insert(destination, 50, 10) // opens what the same keys go through later
			p := w.start()
			w.published(30*time.Second, 50)
			capture := w.capture(destination)
			proxy.Stall()
			ids := w.insert(destination, 50, 10)
			claimed := map[string]time.Time{} // since when rows have been claimed without a break
			longest, doubted := time.Duration(0), false
			age, rises, looked := 0.0, 0, time.Now()
			idle := 0
			for end := time.Now().Add(time.Duration(count(30, 6)) * time.Second); time.Now().Before(end) || !doubted || rises < 2; <-time.After(100 * time.Millisecond) {
				now, still := time.Now(), map[string]time.Time{}
				for _, id := range w.query(`select message_id::text from messaging_outbox_status where status = 'CLAIMED'`) {
					if still[id] = now; !claimed[id].IsZero() {
						still[id] = claimed[id]
					}
					longest = max(longest, now.Sub(still[id]))
				}
				claimed = still
				doubted = w.number(`select count(*) from messaging_outbox where ambiguous_attempts > 0`) > 0 || doubted
				idle = max(idle, w.number(`select coalesce(max(extract(epoch from clock_timestamp() - state_change) * 1000), 0)::int from pg_stat_activity
				  where datname = current_database() and state like 'idle in transaction%'`))
				if now.Sub(looked) > time.Second {
					looked = now
					if a := p.metric("relay_outbox_oldest_age_seconds", fmt.Sprintf("destination=%q", destination)); a > age {
						age, rises = a, rises+1
					}
				}
				if now.Sub(end) > 30*time.Second {
					t.Fatalf("nothing answers, and a row is in doubt: %v; the age of the oldest row rose %d times, to %.1f s", doubted, rises, age)
				}
			}
			if most := testenv.Within(publishTimeout + time.Second); longest > most {
				t.Errorf("a row was claimed for %v by a relay that lives, want at most %v", longest, most)
			}
			if idle > 1000 {
				t.Errorf("a session was idle in a transaction for %d ms", idle)
			}
			proxy.Resume()
			w.published(time.Minute, 100)
			capture.WaitFor(t, 10*time.Second, ids...)
		})
	}
}
