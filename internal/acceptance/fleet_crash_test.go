package acceptance

import (
	"sync"
	"testing"
	"time"

	"github.com/backend-skeleton/relay/internal/brokertest"
)

// A relay that stood still for longer than its lease changes nothing of what another one has made of its row meanwhile,
// be that final or not.
func TestB02_ALateOutcomeChangesNothing(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		became string
		lost   float64 // that a row is published already is no lost lease
	}{{"PUBLISHED", 0}, {"PARKED", 1}} {
		t.Run(c.became, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, withKafka(true))
			capture := w.capture(kafkaDestination)
			slow := w.write()
			w.useKafka(brokertest.Require(t, "KAFKA_BOOTSTRAP")) // what follows does not go through the proxy
			if c.became == "PARKED" {
				w.destinationFile(kafkaDestination)["payload"] = m{"max-bytes": 1}
			}
			quick := w.write()

			w.insert(kafkaDestination, 1, 1)
			first := w.startFile(slow)
			w.published(30*time.Second, 1)
			onTheWire, away := make(chan struct{}), make(chan struct{})
			var produced sync.Once
			w.kafkaProxy.Trap(brokertest.CutBefore, -1, func(*brokertest.Publish) bool {
				produced.Do(func() { close(onTheWire) })
				<-away
				return true
			})
			id := w.add(kafkaDestination, message{orderingKey: "k"})
			select {
			case <-onTheWire:
			case <-time.After(30 * time.Second):
				t.Error("the row was not published")
			}
			first.pause()
			w.kafkaProxy.Down() // what it had handed over never arrives
			close(away)
			second := w.startFile(quick)
			brokertest.Eventually(t, lease+30*time.Second, "the row to be "+c.became, func() bool { return w.of(id, "status") == c.became })
			row := func() string { return w.query(`select o::text from messaging_outbox o where message_id = $1`, id)[0] }
			epoch := func() int { // the lane may go back to the one that lost it, as its share, but never with an older epoch
				return w.number(`select epoch from messaging_outbox_lane l join messaging_outbox o using (lane) where o.message_id = $1`, id)
			}
			rowBefore, epochBefore := row(), epoch()
			first.resume()
			brokertest.Eventually(t, 30*time.Second, "the publish that was open to end", func() bool {
				return first.metric("messaging_publish_attempts_total", `outcome="AMBIGUOUS"`) >= 1
			})
			brokertest.Eventually(t, 30*time.Second, "the outcome that came too late to be counted", func() bool {
				return first.metric("relay_lost_lease_total") >= c.lost
			})
			w.stays(time.Second, w.statuses()) // in which it would be written
			if got := row(); got != rowBefore {
				t.Errorf("the row is %s\nit was %s", got, rowBefore)
			}
			if got := epoch(); got < epochBefore {
				t.Errorf("the lane's epoch went from %d to %d", epochBefore, got)
			}
			if c.became == "PUBLISHED" {
				capture.WaitFor(t, 10*time.Second, id)
			}
			if n := capture.IDs()[id]; (n == 1) != (c.became == "PUBLISHED") {
				t.Errorf("the row was captured %d times", n)
			}
			if n := first.metric("relay_lost_lease_total"); n != c.lost {
				t.Errorf("%v lost leases, want %v", n, c.lost)
			}
			if !first.alive() || !second.alive() {
				t.Error("a relay ended")
			}
		})
	}
}

// A row with which its relay dies again and again ends up alone on the wire, and is parked; no other row pays for it.
func TestB42_ARowThatKillsItsRelayIsParked(t *testing.T) {
	t.Parallel()
	w := newWorld(t, withRabbit(true))
	w.set("relay", m{"batch": 1, "breaker": m{"failures": 1000}})
	capture := w.capture(rabbitDestination)
	var relay *process
	onTheWire, killed := make(chan struct{}), make(chan struct{})
	w.rabbitProxy.Trap(brokertest.CutBefore, -1, func(p *brokertest.Publish) bool {
		if string(p.Body) != `"deadly"` {
			return false
		}
		select {
		case onTheWire <- struct{}{}:
			<-killed
		case <-t.Context().Done():
		}
		return true
	})
	good := w.insert(rabbitDestination, 50, 0)
	deadly := w.add(rabbitDestination, message{payload: `"deadly"`})
	good = append(good, w.insert(rabbitDestination, 50, 0)...)
	program, file := plainRelay(t), w.write()
	relay = w.startProgram(program, file)
	kills, deadline := 0, time.After(3*time.Minute)
	for w.of(deadly, "status") != "PARKED" {
		select {
		case <-onTheWire:
			relay.kill()
			kills++
			killed <- struct{}{}
			relay = w.startProgram(program, file)
		case <-time.After(100 * time.Millisecond):
		case <-deadline:
			t.Fatalf("after %d kills: %s", kills, w.statuses())
		}
	}
	// The first kills take the rows along that were on the wire beside it; in the last ones it was alone.
	if most := maxAttempts + 5; kills < maxAttempts || kills > most {
		t.Errorf("parked after %d kills, want %d to %d", kills, maxAttempts, most)
	}
	w.until(30*time.Second, "PARKED 1, PUBLISHED 100")
	if code, n := w.of(deadly, "last_failure_code"), w.of(deadly, "crash_attempts"); code != "RELAY_LOST" || n != "3" {
		t.Errorf("parked by %s after %s crashes, want RELAY_LOST after 3", code, n)
	}
	if n := w.number(`select count(*) from messaging_outbox where status = 'PUBLISHED' and crash_attempts > 0`); n > 0 {
		t.Errorf("%d other rows are counted as deadly", n)
	}
	capture.WaitFor(t, 10*time.Second, good...)
	t.Logf("parked after %d kills", kills)
}
