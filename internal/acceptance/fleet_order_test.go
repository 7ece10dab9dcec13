package acceptance

import (
	"fmt"
	"math"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/backend-skeleton/relay/internal/brokertest"
)

// keyedRabbit gives the world a destination that keeps the order of keys and whose rows carry their routing key, so that
// a test can refuse single rows by a routing key that is not bound.
func (w *world) keyedRabbit(name string) {
	w.rabbitByKey(name)
	w.destinationFile(name)["guarantees"] = m{"ordering": "KEY"}
	w.destinationFile(name)["outbox"] = m{"keyless": "allow"}
}

// A row that waits for its next attempt is not overtaken by a later one of its key, and nobody else waits for it.
func TestB35_NothingOvertakesARowThatIsTriedAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t, withRabbit(true))
	w.unhurried()
	w.keyedRabbit("rabbit.keyed")
	w.set("relay", m{"attempts": 1000, "backoff": m{"initial": "200ms", "max": "400ms"}})
	var mu sync.Mutex
	arrived := map[string][]time.Time{} // publishes, by body
	refused := 0
	w.rabbitProxy.Trap(brokertest.CutBefore, -1, func(p *brokertest.Publish) bool {
		mu.Lock()
		defer mu.Unlock()
		arrived[string(p.Body)] = append(arrived[string(p.Body)], time.Now())
		if p.RoutingKey == "not.yet" {
			refused++
		}
		return false
	})
	capture := w.capture(rabbitDestination)
	a := w.add("rabbit.keyed", message{orderingKey: "k", partitionKey: "not.yet", payload: `"a"`})
	b := w.add("rabbit.keyed", message{orderingKey: "k", partitionKey: "mail", payload: `"b"`})
	w.start()
	w.start()
	tries := func() int {
		mu.Lock()
		defer mu.Unlock()
		return refused
	}
	brokertest.Eventually(t, 30*time.Second, "the first row to be refused again and again", func() bool { return tries() >= 3 })
	others := w.query(`select messaging_outbox_add('rabbit.keyed', 'order.created', 'shop', '"other"', partition_key => 'mail',
	  ordering_key => 'other' || i % 10)::text from generate_series(1, 50) i`)
	brokertest.Eventually(t, 5*time.Second, "rows of other keys to be sent", func() bool { return w.sent(others) == 50 })
	if got := w.of(b, "status"); got != "HELD" && got != "PENDING" {
		t.Errorf("the row behind the refused one is %s", got)
	}
	w.vhost.Bind(t, "mail", w.queue, "not.yet")
	brokertest.Eventually(t, 30*time.Second, "both rows to be sent", func() bool { return w.sent([]string{a, b}) == 2 })
	capture.WaitFor(t, 10*time.Second, a, b)
	var order []string
	for _, msg := range capture.All() {
		if msg.ID == a || msg.ID == b {
			order = append(order, msg.ID)
		}
	}
	if !slices.Equal(order, []string{a, b}) {
		t.Errorf("%d copies of the two rows arrived, or not in their order", len(order))
	}
	mu.Lock()
	defer mu.Unlock()
	if tried := arrived[`"a"`]; len(arrived[`"b"`]) != 1 || arrived[`"b"`][0].Before(tried[len(tried)-1]) {
		t.Errorf("the second row was published %d times, want once and after the first was taken", len(arrived[`"b"`]))
	}
}

// The pause before the next attempt is above zero and no longer than the longest, whatever the number of attempts.
func TestB40_ThePauseNeverOverflows(t *testing.T) {
	t.Parallel()
	w := newWorld(t, withRabbit(false))
	w.unhurried()
	w.rabbitByKey("rabbit.keyed")
	w.set("relay", m{"attempts": math.MaxInt32, "backoff": m{"initial": "1s", "max": "60s"}})
	attempts := []int{31, 35, 62, 63, 64, 100, math.MaxInt32 - 2}
	ids := map[int]string{}
	for _, n := range attempts {
		ids[n] = w.add("rabbit.keyed", message{partitionKey: "unbound"})
		w.exec(`update messaging_outbox set attempts = $2 where message_id = $1`, ids[n], n)
	}
	p := w.start()
	for _, n := range attempts {
		brokertest.Eventually(t, 30*time.Second, "a row to be tried once more", func() bool {
			return w.number(`select attempts from messaging_outbox where message_id = $1`, ids[n]) == n+1
		})
	}
	if n := w.number(`select count(*) from messaging_outbox where status <> 'RETRYABLE_FAILURE' or next_attempt_at is null
	  or next_attempt_at > clock_timestamp() + interval '90 seconds'`); n > 0 {
		t.Errorf("%d rows wait for no time, or for longer than the longest pause", n)
	}
	if !p.alive() {
		t.Error("the relay ended")
	}
}

// How fast a row is tried again does not depend on how many relays there are.
func TestB41_MoreRelaysDoNotTryMoreOften(t *testing.T) {
	t.Parallel()
	pause, attempts := time.Duration(count(5000, 1000))*time.Millisecond, count(6, 5)
	w := newWorld(t, withRabbit(true))
	w.unhurried()
	w.rabbitByKey("rabbit.keyed")
	w.set("relay", m{"attempts": attempts, "backoff": m{"initial": pause.String(), "max": pause.String(), "multiplier": 1, "jitter": "none"}})
	tries := w.watchPublishes("unbound")
	bad := w.add("rabbit.keyed", message{partitionKey: "unbound"})
	program, file := plainRelay(t), w.write()
	for range count(6, 4) {
		w.startProgram(program, file)
	}
	brokertest.Eventually(t, time.Duration(attempts+5)*pause, "the row to be parked", func() bool { return w.of(bad, "status") == "PARKED" })
	at := tries()["{}"]
	if len(at) != attempts {
		t.Errorf("%d publishes of the row, want %d", len(at), attempts)
	}
	for i := range len(at) - 1 {
		if gap := at[i+1].Sub(at[i]); gap < pause {
			t.Errorf("only %v between attempts %d and %d, want %v", gap, i+1, i+2, pause)
		}
	}
	if got := w.of(bad, "attempts"); got != fmt.Sprint(attempts) {
		t.Errorf("%s attempts counted, want %d", got, attempts)
	}
}
