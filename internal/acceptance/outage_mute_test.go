package acceptance

import (
	"testing"
	"time"

	"github.com/backend-skeleton/relay/internal/brokertest"
)

// A broker takes connections and answers nothing, from before the start on: the other broker's rows flow, and its own go
// out, each once, as soon as it answers.
func TestOutage_ABrokerThatAnswersNothing(t *testing.T) {
	t.Parallel()
	for i, destination := range both {
		t.Run(destination, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, withKafka(true), withRabbit(true))
			w.unhurried()
			proxy := map[string]*brokertest.Proxy{kafkaDestination: w.kafkaProxy, rabbitDestination: w.rabbitProxy}[destination]
			proxy.Stall()
			capture := w.capture(destination)
			ids := w.insert(destination, 100, 10)
			p := w.start()
			w.othersFlow(both[1-i])
			brokertest.Eventually(t, 40*time.Second, "readiness to say that something is wrong", func() bool {
				ready, reason := p.readiness(destination)
				return !ready && reason != ""
			})
			w.othersFlow(both[1-i])
			proxy.Resume()
			w.published(time.Minute, 200)
			capture.WaitFor(t, 10*time.Second, ids...)
			once(t, capture, ids)
			if n := w.number(`select max(attempts + ambiguous_attempts) from messaging_outbox`); n != 1 {
				t.Errorf("up to %d attempts of rows that never left, want 1", n)
			}
		})
	}
}

// One destination of a broker gets no answers: the broker's other destination is not held up, and nothing of a row without
// answer is sent again while the answer may still come.
func TestOutage_ADestinationWithoutAnswers(t *testing.T) {
	t.Parallel()
	const mute = "rabbit.mute"
	w := newWorld(t, withRabbit(true))
	w.set("relay", m{"attempts": 1000})
	w.vhost.Queue(t, "mute.q", m{"x-queue-type": "quorum"})
	w.vhost.Bind(t, "mail", "mute.q", "mute")
	w.destination(mute, m{
		"broker": "rabbit", "kind": "WORK_QUEUE", "physical": m{"exchange": "mail", "routing-key": "mute", "queue": "mute.q"},
		"producer": m{"confirmation": "BROKER_ACK", "timeout": publishTimeout.String()},
	})
	trap := w.rabbitProxy.Trap(brokertest.SwallowAnswer, -1, func(p *brokertest.Publish) bool { return p.RoutingKey == "mute" })
	muted := w.insert(mute, count(5000, 1500), 0) // more than the broker has places
	p := w.start()
	trap.Wait(t, 1, 30*time.Second)
	for range 3 {
		w.othersFlow(rabbitDestination)
	}
	brokertest.Eventually(t, 30*time.Second, "readiness to name the destination", func() bool {
		ready, reason := p.readiness(mute)
		return !ready && (reason == "CONFIRM_TIMEOUT" || reason == "NOT_SENT") // of those that were written, and of those behind them
	})
	if n := p.metric("relay_breaker_state", `broker="rabbit"`, `destination=""`, `state="CLOSED"`); n != 1 {
		t.Error("the breaker of the broker is not closed though it answers")
	}
	w.othersFlow(rabbitDestination)
	p.stillReady(rabbitDestination)
	if n := w.sent(muted); n > 0 {
		t.Errorf("%d rows are PUBLISHED that nobody confirmed", n)
	}
	copies := brokertest.CaptureRabbit(t, w.vhost.URL(), "mute.q")
	copies.Wait(t, 1, 20*time.Second)
	if twice := copies.Duplicates(); len(twice) > 0 {
		t.Errorf("%d rows were sent again while their answers were open", len(twice))
	}
}

// A destination that an operator paused waits and loses nothing, and the other one flows.
func TestOutage_APausedDestination(t *testing.T) {
	t.Parallel()
	w := newWorld(t, withKafka(false), withRabbit(false))
	w.unhurried()
	capture := w.capture(kafkaDestination)
	w.exec(`insert into messaging_control (scope, name, verb, owner, reason) values ('destination', $1, 'PAUSE', 'operator', 'maintenance')`, kafkaDestination)
	p := w.start()
	p.notReady(kafkaDestination, "PAUSED", 30*time.Second)
	ids := w.insert(kafkaDestination, 50, 5)
	w.othersFlow(rabbitDestination)
	if n := w.number(`select count(*) from messaging_outbox where message_id = any($1::uuid[]) and status = 'PENDING' and attempts = 0`, ids); n != 50 {
		t.Errorf("%d rows of the paused destination wait as they were, want 50", n)
	}
	w.exec(`delete from messaging_control`)
	w.published(30*time.Second, 100)
	capture.WaitFor(t, 10*time.Second, ids...)
	once(t, capture, ids)
	inOrder(t, capture, ids)
	w.oneAttemptEach()
	p.stillReady(kafkaDestination)
}
