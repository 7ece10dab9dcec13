package acceptance

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/backend-skeleton/relay/internal/brokertest"
)

// Four relays on one table: while nothing crashes, each row goes out once, by one of them.
func TestB01_EachRowIsPublishedOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t, withKafka(false, brokertest.Partitions(3)), withRabbit(false))
	w.unhurried()
	kafka, rabbit := w.capture(kafkaDestination), w.capture(rabbitDestination)
	k, r := w.insert(kafkaDestination, 500, 50), w.insert(rabbitDestination, 500, 0)
	for range 4 {
		w.start()
	}
	w.published(60*time.Second, 1000)
	kafka.WaitIDs(t, 500, 10*time.Second)
	rabbit.WaitIDs(t, 500, 10*time.Second)
	once(t, kafka, k)
	once(t, rabbit, r)
	inOrder(t, kafka, k)
	if n := w.number(`select max(attempts) from messaging_outbox`); n != 1 {
		t.Errorf("up to %d attempts, want 1", n)
	}
}

// The wake-up and the sweep go through one claim: a row that is being published is not picked up by the other way.
func TestB03_WakeUpAndSweepShareOneClaim(t *testing.T) {
	t.Parallel()
	w := newWorld(t, withKafka(true))
	w.unhurried()
	w.set("relay", m{"poll": "10ms", "wake-up": "auto"})
	w.kafkaProxy.Delay(100*time.Millisecond, brokertest.ToClient) // each answer of the broker is late
	capture := w.capture(kafkaDestination)
	w.start()
	w.start()
	var ids []string
	for i := range 200 {
		ids = append(ids, w.enqueue(`with n as (select pg_notify('messaging_outbox', '')) select messaging_outbox_add($1, 'order.created', 'shop', '{}',
		  ordering_key => $2)::text from n`, kafkaDestination, fmt.Sprint("k", i%20))...)
	}
	w.published(60*time.Second, len(ids))
	capture.WaitIDs(t, len(ids), 10*time.Second)
	once(t, capture, ids)
	inOrder(t, capture, ids)
}

// No row is published under a lease that has run out, however slowly the batch moves.
func TestB04_TheTailOfABatchKeepsItsLease(t *testing.T) {
	t.Parallel()
	w := newWorld(t, withKafka(true))
	w.set("relay", m{"batch": 20})
	w.kafkaProxy.Delay(400*time.Millisecond, brokertest.ToClient)
	capture := w.capture(kafkaDestination)
	ids := w.insert(kafkaDestination, 40, 1)
	w.start()
	w.start()
	deadline := time.Now().Add(60 * time.Second)
	for w.statuses() != "PUBLISHED 40" && time.Now().Before(deadline) {
		if n := w.number(`select count(*) from messaging_outbox_lane where owner is not null and lease_until < clock_timestamp()
		  and (window_lo is not null or cardinality(window_ids) > 0)`); n > 0 {
			t.Fatalf("%d lanes have rows on the wire beyond their lease", n)
		}
	}
	w.published(time.Second, 40)
	capture.WaitIDs(t, 40, 10*time.Second)
	once(t, capture, ids)
	inOrder(t, capture, ids)
}

// Ownership belongs to a process start: a restart under the same name does not keep its predecessor's rows alive.
func TestB05_ARestartUnderTheSameNameTakesOver(t *testing.T) {
	t.Parallel()
	w := newWorld(t, withKafka(true))
	w.env = append(w.env, "HOSTNAME=relay-0")
	w.kafkaProxy.Stall()
	ids := w.insert(kafkaDestination, 20, 0)
	first := w.start()
	claimed := `select count(*) from messaging_outbox_status where status = 'CLAIMED'`
	brokertest.Eventually(t, 20*time.Second, "all rows to be leased", func() bool { return w.number(claimed) == 20 })
	owner := w.query(`select distinct lease_owner::text from messaging_outbox_status where status = 'CLAIMED'`)
	first.kill()
	w.kafkaProxy.Resume()
	capture := w.capture(kafkaDestination)
	w.start()
	w.published(lease+13*time.Second, 20)
	capture.WaitIDs(t, 20, 10*time.Second)
	for id, n := range capture.IDs() {
		if n > 2 {
			t.Errorf("a row was captured %d times", n)
		}
		_ = id
	}
	if len(capture.IDs()) != len(ids) {
		t.Errorf("%d ids captured, want %d", len(capture.IDs()), len(ids))
	}
	if again := w.query(`select distinct published_by::text from messaging_outbox`); len(owner) != 1 || len(again) != 1 || again[0] == owner[0] {
		t.Errorf("owner before %v, after %v: want two different ones", len(owner), len(again))
	}
}

// A relay does not touch rows of destinations that it does not serve, not even where their owner died.
func TestB06_OthersDestinationsAreLeftAlone(t *testing.T) {
	t.Parallel()
	w := newWorld(t, withKafka(false), withRabbit(true))
	w.set("relay", m{"serve": []string{"kafka.*"}, "unknown-destination-grace": "1s"})
	kafkaOnly := w.write()
	w.set("relay", m{"serve": []string{"rabbit.*"}})
	rabbitOnly := w.write()

	w.rabbitProxy.Stall()
	ids := w.insert(rabbitDestination, 5, 0)
	other := w.startFile(rabbitOnly)
	brokertest.Eventually(t, 20*time.Second, "rows to be leased", func() bool {
		return w.number(`select count(*) from messaging_outbox_status where status = 'CLAIMED'`) == 5
	})
	other.kill()
	w.rabbitProxy.Resume()
	ids = append(ids, w.insert(rabbitDestination, 15, 0)...)
	w.insert(kafkaDestination, 10, 0)
	p := w.startFile(kafkaOnly)
	w.until(20*time.Second, "PENDING 20, PUBLISHED 10")
	w.stays(lease+2*time.Second, "PENDING 20, PUBLISHED 10") // the time in which it would have taken over, had it been its business
	if n := w.number(`select sum(attempts + ambiguous_attempts) from messaging_outbox where destination = $1`, rabbitDestination); n != 0 {
		t.Errorf("%d attempts charged by a relay that does not serve them", n)
	}
	if code, _ := p.get("/actuator/messaging/outbox"); code != 200 {
		t.Errorf("the outbox page answers %d", code)
	}
	capture := w.capture(rabbitDestination)
	w.startFile(rabbitOnly)
	w.published(20*time.Second, 30)
	capture.WaitFor(t, 10*time.Second, ids...)
}

// After a crash the rest moves within the lease and the poll, and what is sent twice is what was in doubt.
func TestB07_RecoveryTakesALeaseAndAPoll(t *testing.T) {
	t.Parallel()
	for _, destination := range both {
		t.Run(destination, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, withKafka(false, brokertest.Partitions(2)), withRabbit(false))
			capture := w.capture(destination)
			ids := w.insert(destination, 1000, 20)
			first := w.start()
			capture.Wait(t, 200, 30*time.Second)
			first.kill()
			w.start()
			w.published(lease+15*time.Second, 1000)
			capture.WaitFor(t, 10*time.Second, ids...)
			if destination == kafkaDestination {
				inOrder(t, capture, ids)
			}
			doubted := map[string]bool{}
			for _, id := range w.query(`select message_id::text from messaging_outbox where ambiguous_attempts > 0`) {
				doubted[id] = true
			}
			for _, id := range capture.Duplicates() {
				if !doubted[id] {
					t.Errorf("a row was sent twice that no take-over marked")
				}
			}
		})
	}
}

// A clean stop gives every lease back, and charges nothing for stopping.
func TestB08_AStopGivesLeasesBack(t *testing.T) {
	t.Parallel()
	for _, destination := range both {
		t.Run(destination, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, withKafka(true), withRabbit(true))
			proxy := map[string]*brokertest.Proxy{kafkaDestination: w.kafkaProxy, rabbitDestination: w.rabbitProxy}[destination]
			// Connected first, so that rows are on their way when the broker stops answering.
			w.insert(destination, 1, 0)
			p := w.start()
			w.published(20*time.Second, 1)
			proxy.Stall()
			ids := w.insert(destination, 50, 0)
			brokertest.Eventually(t, 20*time.Second, "rows to be leased", func() bool {
				return w.number(`select count(*) from messaging_outbox_status where status = 'CLAIMED'`) > 0
			})
			if code := p.stop(drain + 2*time.Second); code != 0 {
				t.Errorf("exit code %d, want 0", code)
			}
			if n := w.number(`select count(*) from messaging_outbox_lane where owner is not null`); n != 0 {
				t.Errorf("%d lanes are still owned", n)
			}
			if n := w.number(`select max(attempts) from messaging_outbox`); n > 1 {
				t.Errorf("up to %d attempts, want at most 1", n)
			}
			capture := w.capture(destination)
			proxy.Resume()
			w.start()
			w.published(20*time.Second, 51)
			capture.WaitFor(t, 10*time.Second, ids...)
		})
	}
}

// What the broker acknowledged is recorded although the process is stopping.
func TestB09_AnAcknowledgementIsRecordedWhileStopping(t *testing.T) {
	t.Parallel()
	w := newWorld(t, withKafka(false))
	w.set("relay", m{"lease": "10s"})
	proxy := brokertest.NewProxy(t, w.databaseAddress())
	w.env = []string{"RELAY_DATABASE_URL=" + w.databaseURL(proxy.Addr())}
	capture := w.capture(kafkaDestination)
	p := w.start()
	p.address()
	proxy.Delay(250*time.Millisecond, brokertest.ToServer)
	ids := w.insert(kafkaDestination, 10, 0)
	capture.WaitIDs(t, 10, 30*time.Second)
	if code := p.stop(drain + 2*time.Second); code != 0 {
		t.Errorf("exit code %d, want 0", code)
	}
	if got := w.statuses(); got != "PUBLISHED 10" {
		t.Errorf("rows are %q, want PUBLISHED 10", got)
	}
	proxy.Delay(0)
	w.start()
	capture.Quiet(t, 2*time.Second)
	once(t, capture, ids)
}

// Stopping is bounded whatever the broker does.
func TestB10_AStopEndsInTimeWithABrokerThatHangs(t *testing.T) {
	t.Parallel()
	for _, destination := range both {
		t.Run(destination, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, withKafka(true), withRabbit(true))
			proxy := map[string]*brokertest.Proxy{kafkaDestination: w.kafkaProxy, rabbitDestination: w.rabbitProxy}[destination]
			w.insert(destination, 1, 0)
			p := w.start()
			w.published(20*time.Second, 1)
			proxy.Stall()
			ids := w.insert(destination, 1000, 10)
			brokertest.Eventually(t, 30*time.Second, "publishes to fail", func() bool {
				ready, _ := p.readiness(destination)
				return !ready || w.number(`select count(*) from messaging_outbox where status <> 'PENDING'`) > 1
			})
			start := time.Now()
			if code := p.stop(drain + 3*time.Second); code != 0 {
				t.Errorf("exit code %d, want 0", code)
			}
			t.Logf("stopped after %v", time.Since(start).Round(time.Millisecond))
			if n := w.number(`select count(*) from messaging_outbox where status = 'PUBLISHED'`); n != 1 {
				t.Errorf("%d rows PUBLISHED, want 1: the broker acknowledged no other", n)
			}
			capture := w.capture(destination)
			proxy.Resume()
			w.start()
			w.published(40*time.Second, 1001)
			capture.WaitFor(t, 10*time.Second, ids...)
			if destination == kafkaDestination {
				inOrder(t, capture, w.query(`select message_id::text from messaging_outbox order by seq`))
			}
		})
	}
}

// Nothing is sent before an acknowledgement for that very row, and an outage burns no attempts.
func TestB11_NothingIsSentWhileTheBrokerIsAway(t *testing.T) {
	t.Parallel()
	for _, destination := range both {
		t.Run(destination, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, withKafka(true), withRabbit(true))
			proxy := map[string]*brokertest.Proxy{kafkaDestination: w.kafkaProxy, rabbitDestination: w.rabbitProxy}[destination]
			other := map[string]string{kafkaDestination: rabbitDestination, rabbitDestination: kafkaDestination}[destination]
			proxy.Down()
			ids := w.insert(destination, 100, 0)
			p := w.start()
			brokertest.Eventually(t, 20*time.Second, "readiness to say that the broker is away", func() bool {
				ready, reason := p.readiness(destination)
				return !ready && reason != ""
			})
			w.insert(other, 50, 0) // others flow
			w.until(10*time.Second, "PENDING 100, PUBLISHED 50")
			w.stays(2*time.Second, "PENDING 100, PUBLISHED 50") // some more rounds of trying
			if n := w.number(`select max(attempts + ambiguous_attempts) from messaging_outbox where destination = $1`, destination); n != 0 {
				t.Errorf("up to %d attempts, want 0", n)
			}
			if code, _ := p.get("/readyz"); code != 200 {
				t.Errorf("readiness is %d although one broker works", code)
			}
			capture := w.capture(destination)
			proxy.Up(t)
			w.published(30*time.Second, 150)
			capture.WaitFor(t, 10*time.Second, ids...)
			once(t, capture, ids)
		})
	}
}

// An outcome that changes no row is told: a stale owner's rejection changes nothing, its confirmation is still true.
func TestB12_AStaleOutcomeIsToldAndChangesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, withKafka(true))
	w.kafkaProxy.Delay(600*time.Millisecond, brokertest.ToClient)
	w.insert(kafkaDestination, 1, 1)
	p := w.start()
	w.published(20*time.Second, 1)
	before := w.number(`select count(*) from messaging_outbox`)
	w.insert(kafkaDestination, 10, 1) // of one key, so that one claim takes them
	brokertest.Eventually(t, 20*time.Second, "rows to be leased", func() bool {
		return w.number(`select count(*) from messaging_outbox_status where status = 'CLAIMED'`) == 10
	})
	p.pause()
	w.exec(`update messaging_outbox_lane set owner = gen_random_uuid(), epoch = epoch + 1, lease_until = now() + interval '1 hour',
	  lease_ttl = '2 hours'`)
	w.exec(`insert into messaging_outbox_relay (id, serves, heartbeat) select distinct owner, '{}'::text[], now() + interval '1 hour' from messaging_outbox_lane`)
	p.resume()
	w.published(20*time.Second, before+10)
	brokertest.Eventually(t, 10*time.Second, "the lost lease to be counted", func() bool { return p.metric("relay_lost_lease_total") >= 1 })
	if n := p.metric("relay_late_confirmed_total"); n != 10 {
		t.Errorf("%v rows late confirmed, want 10", n)
	}
	p.signal(syscall.SIGTERM)
}
