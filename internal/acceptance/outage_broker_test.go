package acceptance

import (
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/backend-skeleton/relay/internal/brokertest"
	"github.com/backend-skeleton/relay/internal/testenv"
)

// One broker is away for long: the other's messages take no longer than before, nothing of the rows that wait changes, and
// when the broker is back they go out once, at first slowly.
func TestOutage_OneBrokerAwayDoesNotSlowTheOther(t *testing.T) {
	t.Parallel()
	for i, destination := range both {
		t.Run(destination, func(t *testing.T) {
			t.Parallel()
			other := both[1-i]
			w := newWorld(t, withKafka(true), withRabbit(true))
			w.unhurried()
			w.set("relay", m{"breaker": m{"open-max": "2s"}})
			proxy := map[string]*brokertest.Proxy{kafkaDestination: w.kafkaProxy, rabbitDestination: w.rabbitProxy}[destination]
			capture, away := w.capture(other), w.capture(destination)
			w.insert(destination, 1, 0)
			w.insert(other, 1, 0)
			p := w.start()
			w.published(30*time.Second, 2)
			length := time.Duration(count(600, 5)) * time.Second
			before := w.latency(other, capture, min(length, time.Minute))

			proxy.Down()
			waiting := w.insert(destination, 300, 20)
			p.notReady(destination, "BROKER_UNREACHABLE", 30*time.Second)
			during := w.latency(other, capture, length)
			t.Logf("p99 from commit to the broker: %v before, %v during the outage", before, during)
			// The short tier asks whether rows of the one wait for the other, which would be for a timeout.
			ratio, floor := 1.5, 20*time.Millisecond
			if !testenv.Full() {
				ratio, floor = 3, time.Second
			}
			if most := time.Duration(ratio * float64(max(before, floor))); during > most {
				t.Errorf("p99 during the outage is %v, it was %v", during, before)
			}
			if n := w.number(`select count(*) from messaging_outbox where message_id = any($1::uuid[]) and status in ('PENDING', 'HELD') and attempts = 0
			  and ambiguous_attempts = 0`, waiting); n != len(waiting) {
				t.Errorf("%d rows wait as they were, want %d", n, len(waiting))
			}
			broker := map[string]string{kafkaDestination: "kafka", rabbitDestination: "rabbit"}[destination]
			if n := p.metric("relay_breaker_state", `broker="`+broker+`"`, `destination=""`, `state="CLOSED"`); n != 0 {
				t.Error("the metrics call the breaker of the broker that is away closed")
			}
			if b := p.breaker(destination); b.Broker == "CLOSED" || b.Destination != "CLOSED" {
				t.Errorf("the outbox page shows the breakers as %+v", b)
			}

			proxy.Delay(100*time.Millisecond, brokertest.ToClient) // so that the slow start can be seen
			proxy.Up(t)
			brokertest.Eventually(t, 40*time.Second, "the slow start to show", func() bool {
				return p.metric("relay_slow_start_rows", `broker="`+broker+`"`, `destination=""`) >= 10 || w.sent(waiting) == len(waiting)
			})
			if w.sent(waiting) == len(waiting) {
				t.Error("everything went out at once")
			}
			brokertest.Eventually(t, time.Minute, "the rows that waited to be sent", func() bool { return w.sent(waiting) == len(waiting) })
			w.oneAttemptEach()
			away.WaitFor(t, 10*time.Second, waiting...)
			once(t, away, w.query(`select message_id::text from messaging_outbox where destination = $1`, destination))
			p.stillReady(destination)
		})
	}
}

// latency adds a row every so often and gives the 99th percentile of the time from its commit to its arrival.
func (w *world) latency(destination string, capture *brokertest.Capture, period time.Duration) time.Duration {
	w.t.Helper()
	committed := map[string]time.Time{}
	ids := []string{}
	for end := time.Now().Add(period); time.Now().Before(end); <-time.After(50 * time.Millisecond) { // the pace of the writer
		id := w.add(destination, message{})
		committed[id] = time.Now()
		ids = append(ids, id)
	}
	var took []time.Duration
	for _, msg := range capture.WaitFor(w.t, 30*time.Second, ids...) {
		if begin, ok := committed[msg.ID]; ok {
			took = append(took, max(msg.Arrived.Sub(begin), 0))
		}
	}
	slices.Sort(took)
	return took[(len(took)-1)*99/100].Round(time.Millisecond)
}

// breakers as the outbox page shows them.
type breakers struct {
	Broker, Destination string
	SlowStart           int
}

func (p *process) breaker(destination string) (b breakers) {
	p.t.Helper()
	_, body := p.get("/actuator/messaging/outbox")
	var page struct {
		Destinations []struct {
			Name    string
			Breaker *breakers
		}
	}
	if err := json.Unmarshal([]byte(body), &page); err != nil {
		p.t.Fatalf("the outbox page is no JSON: %v", err)
	}
	for _, d := range page.Destinations {
		if d.Name == destination && d.Breaker != nil {
			return *d.Breaker
		}
	}
	p.t.Fatalf("the outbox page shows no breaker of %s", destination)
	return b
}

// A broker stands still for 10 s while messages flow, and goes on: everything is out afterwards. Kafka's producer knows its
// messages, so that none comes twice; on RabbitMQ those may that were in doubt.
func TestOutage_AFrozenBroker(t *testing.T) {
	t.Parallel()
	t.Run("kafka", func(t *testing.T) {
		t.Parallel()
		server := brokertest.StartKafka(t, brokertest.KafkaOptions{})
		w := newWorld(t)
		w.topic = brokertest.Topic(t, server.Env("KAFKA_BOOTSTRAP"), brokertest.Partitions(3))
		w.useKafka(server.Env("KAFKA_BOOTSTRAP"))
		w.set("relay", m{"attempts": 20, "lease": "6s"})
		w.destinationFile(kafkaDestination)["producer"].(m)["timeout"] = "3s"
		capture := brokertest.CaptureKafka(t, server.Env("KAFKA_BOOTSTRAP"), w.topic)
		ids := w.throughFreeze(server, kafkaDestination)
		capture.WaitFor(t, 30*time.Second, ids...)
		once(t, capture, ids)
		inOrder(t, capture, ids)
	})
	t.Run("rabbitmq", func(t *testing.T) {
		t.Parallel()
		server := brokertest.StartRabbitMQ(t, brokertest.RabbitOptions{})
		w := newWorld(t)
		w.vhost = brokertest.NewVhostOn(t, server.Env("RABBITMQ_URL_1"), server.Env("RABBITMQ_API_1"))
		w.useRabbit(w.vhost.Addr())
		w.set("relay", m{"attempts": 20, "lease": "6s"})
		w.destinationFile(rabbitDestination)["producer"].(m)["timeout"] = "3s"
		capture := w.capture(rabbitDestination)
		ids := w.throughFreeze(server, rabbitDestination)
		capture.WaitFor(t, 30*time.Second, ids...)
		doubted := w.query(`select message_id::text from messaging_outbox where ambiguous_attempts > 0`)
		for _, id := range capture.Duplicates() {
			if !slices.Contains(doubted, id) {
				t.Error("a row came twice that was never in doubt")
			}
		}
		t.Logf("%d rows came twice, %d were in doubt", len(capture.Duplicates()), len(doubted))
	})
}

// throughFreeze lets rows flow while the broker stands still for 10 s, and gives their ids when all are sent.
func (w *world) throughFreeze(server *brokertest.Server, destination string) (ids []string) {
	w.t.Helper()
	ids = w.insert(destination, 50, 20)
	w.start()
	w.start()
	w.published(60*time.Second, 50)
	ids = append(ids, w.insert(destination, count(5000, 500), 20)...)
	server.Pause(1)
	frozen := time.Now()
	for time.Since(frozen) < 10*time.Second {
		ids = append(ids, w.insert(destination, 10, 20)...)
		<-time.After(200 * time.Millisecond) // the pace of the writer
	}
	server.Resume(1)
	w.published(2*time.Minute, len(ids))
	return ids
}
