package observe

import (
	"log/slog"

	"github.com/backend-skeleton/relay/messaging"
)

// InFlight takes the number of messages that are handed to a broker and not
// answered.
func (o *Observer) InFlight(brokerName string, messages int) {
	o.broker(brokerName).inFlight.Set(float64(messages))
}

// Buffered takes the payload bytes of the messages in flight.
func (o *Observer) Buffered(brokerName string, bytes int64) {
	o.broker(brokerName).buffered.Set(float64(bytes))
}

// Published counts the verdict on one message that was handed to a broker.
func (o *Observer) Published(to messaging.DestinationName, _ string, r messaging.PublishResult) {
	d := o.destination(to)
	d.attempts[known(r.Completion)].Inc()
	if r.Completion == messaging.Confirmed {
		d.confirm.Observe(r.Elapsed.Seconds())
	}
}

// Direct counts and logs the verdict on a message that a service published without the outbox. stage is how far it got
// before its end.
func (o *Observer) Direct(to messaging.DestinationName, stage string, r messaging.PublishResult) {
	d, completion := o.destination(to), known(r.Completion)
	d.messages[completion].Inc()
	l := line{destination: d.name, outcome: completion.String(), stage: stage}
	if r.Failure != nil {
		l.category, l.code = r.Failure.Category.String(), r.Failure.Code
	}
	switch completion {
	case messaging.Confirmed:
		l.level, l.message = slog.LevelInfo, "published"
	case messaging.Rejected:
		l.level, l.message = slog.LevelWarn, "not published"
	default:
		l.level, l.message = slog.LevelError, "may have been published"
	}
	o.log.add(l, 1)
}

// LateAnswer counts an answer that came after the verdict.
func (o *Observer) LateAnswer(brokerName string, c messaging.Completion) {
	o.metrics.publishLateAnswers.WithLabelValues(o.broker(brokerName).name, known(c).String()).Inc()
}

// Weak logs messages that were confirmed below the level which the profile
// requires: they are stored, but the broker's settings prove too little.
func (o *Observer) Weak(to messaging.DestinationName, messages int) {
	o.log.add(line{level: slog.LevelError, message: "confirmed below the required level", destination: o.destination(to).name}, messages)
}

// The words of the label state of a breaker.
const (
	BreakerClosed   = "CLOSED"
	BreakerOpen     = "OPEN"
	BreakerHalfOpen = "HALF_OPEN"
)

// Breaker takes the state of a destination's breaker, or, with an empty
// destination, of the broker's own: CLOSED, OPEN or HALF_OPEN. reason is a
// failure code or fixed text and may be empty.
func (o *Observer) Breaker(brokerName string, to messaging.DestinationName, state, reason string) {
	name, label := o.broker(brokerName).name, ""
	if to != "" {
		label = o.destination(to).name
	}
	o.metrics.setBreaker(name, label, state)
	l := line{broker: name, destination: label, code: reason}
	switch state {
	case BreakerOpen:
		l.level, l.message = slog.LevelWarn, "breaker opened"
	case BreakerClosed:
		l.level, l.message = slog.LevelInfo, "breaker closed"
	default: // a broker that is down is probed again and again
		l.level, l.message = slog.LevelDebug, "breaker is half open"
	}
	o.log.add(l, 1)
}

// SlowStart takes how many rows a destination may have open after a breaker
// closed again, its own or, with an empty destination, the broker's; 0 is any
// number.
func (o *Observer) SlowStart(brokerName string, to messaging.DestinationName, rows int) {
	label := ""
	if to != "" {
		label = o.destination(to).name
	}
	o.metrics.slowStart.WithLabelValues(o.broker(brokerName).name, label).Set(float64(rows))
}

// setBreaker makes the given state 1 and the others 0.
func (m *metrics) setBreaker(broker, destination, state string) {
	for _, s := range []string{BreakerClosed, BreakerOpen, BreakerHalfOpen} {
		value := 0.0
		if s == state {
			value = 1
		}
		m.breaker.WithLabelValues(broker, destination, s).Set(value)
	}
}
