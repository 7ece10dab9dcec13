package acceptance

import (
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/backend-skeleton/relay/internal/brokertest"
	"github.com/backend-skeleton/relay/internal/dbtest"
)

// Leases, due times and pauses are made and compared by the database's clock alone: one that runs ten minutes off the
// relays' own costs nothing, and when it jumps, what comes twice is what was taken over.
func TestB73_TheDatabaseClockAloneDecides(t *testing.T) {
	t.Parallel()
	server := brokertest.StartPostgres(t, brokertest.PostgresOptions{OwnClock: true})
	server.SetClock(10 * time.Minute)
	w := newWorld(t, withDatabase(dbtest.Server(server.Env("PG_URL_17")), dbtest.OwnDatabase()), withKafka(true), withRabbit(true))
	w.set("relay", m{"lease": "12s", "backoff": m{"initial": "1s", "max": "10s", "jitter": "none"}})
	w.destinationFile(kafkaDestination)["producer"].(m)["timeout"] = "8s"
	w.rabbitByKey("rabbit.keyed")
	w.kafkaProxy.Delay(500*time.Millisecond, brokertest.ToClient)
	capture := w.capture(kafkaDestination)
	tries := w.watchPublishes("unbound")
	for range 3 {
		w.start()
	}
	// Each sample looks at leases that are held: the time left is between nothing and the whole of it.
	sound := func() {
		t.Helper()
		if n := w.number(`select count(*) from messaging_outbox_lane where owner is not null
		  and (lease_until < clock_timestamp() or lease_until > clock_timestamp() + interval '12 seconds')`); n > 0 {
			t.Errorf("%d leases have less than nothing left, or more than the whole", n)
		}
	}
	rows := count(300, 100)
	ids := w.insert(kafkaDestination, rows, 30)
	bad := w.add("rabbit.keyed", message{partitionKey: "unbound"})
	for end := time.Now().Add(time.Minute); w.sent(ids) < rows; <-time.After(50 * time.Millisecond) {
		if sound(); time.Now().After(end) || t.Failed() {
			t.Fatalf("not sent in time: %s", w.statuses())
		}
	}
	w.parked(bad, "UNROUTABLE", maxAttempts)
	backedOff(t, tries()["{}"])
	capture.WaitFor(t, 20*time.Second, ids...)
	once(t, capture, ids)
	inOrder(t, capture, ids)

	var jump sync.WaitGroup
	ids = append(ids, w.insert(kafkaDestination, rows, 30)...)
	jump.Go(func() { server.SetClock(-10 * time.Minute) })
	ids = append(ids, w.insert(kafkaDestination, rows, 30)...)
	jump.Wait()
	ids = append(ids, w.insert(kafkaDestination, rows, 30)...)
	brokertest.Eventually(t, 2*time.Minute, "all rows to be sent in spite of the jump", func() bool { return w.sent(ids) == len(ids) })
	capture.WaitFor(t, 20*time.Second, ids...)
	inOrder(t, capture, ids)
	doubted := w.query(`select message_id::text from messaging_outbox where ambiguous_attempts > 0`)
	for _, id := range capture.Duplicates() {
		if !slices.Contains(doubted, id) {
			t.Error("a row came twice that was never in doubt")
		}
	}
	sound()
}
