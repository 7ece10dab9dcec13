package observe

import (
	"log/slog"

	"github.com/backend-skeleton/relay/messaging"
)

// Sent counts messages that were handed to a broker's adapter, and the bytes of
// their payloads. Each is taken back by [Observer.Answered].
func (o *Observer) Sent(brokerName string, messages int, bytes int64) {
	b := o.broker(brokerName)
	b.inFlight.Add(float64(messages))
	b.buffered.Add(float64(bytes))
}

// Answered counts the adapter's answer for one message of the given payload size.
// Each message that was sent is answered once, late or not.
func (o *Observer) Answered(to messaging.DestinationName, bytes int, r messaging.PublishResult) {
	d := o.destination(to)
	b := o.broker(d.broker)
	b.inFlight.Dec()
	b.buffered.Sub(float64(bytes))
	d.attempts[known(r.Completion)].Inc()
	if r.Completion == messaging.Confirmed {
		d.confirm.Observe(r.Elapsed.Seconds())
	}
}

// LateAnswer counts an answer that came after the verdict. It adds to
// [Observer.Answered], which counts every answer.
func (o *Observer) LateAnswer(to messaging.DestinationName, r messaging.PublishResult) {
	d := o.destination(to)
	o.metrics.publishLateAnswers.WithLabelValues(d.broker, known(r.Completion).String()).Inc()
}

// BreakerState is the state of a breaker, as its label prints it.
type BreakerState string

// The states of a breaker.
const (
	BreakerClosed   BreakerState = "closed"
	BreakerOpen     BreakerState = "open"
	BreakerHalfOpen BreakerState = "half_open"
)

// Breaker takes the state of a destination's breaker, or, with an empty
// destination, of the broker's own. cause is a failure code and may be empty.
func (o *Observer) Breaker(brokerName string, to messaging.DestinationName, state BreakerState, cause string) {
	name, label := o.broker(brokerName).name, ""
	if to != "" {
		label = o.destination(to).name
	}
	for _, s := range []BreakerState{BreakerClosed, BreakerOpen, BreakerHalfOpen} {
		value := 0.0
		if s == state {
			value = 1
		}
		o.metrics.breaker.WithLabelValues(name, label, string(s)).Set(value)
	}
	level := slog.LevelInfo
	if state == BreakerOpen {
		level = slog.LevelWarn
	}
	if state != BreakerHalfOpen { // it probes again and again while a broker is down
		o.log.add(line{level: level, message: "breaker is " + string(state), broker: name, destination: label, code: cause}, 1)
	}
}
