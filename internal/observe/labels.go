package observe

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/backend-skeleton/relay/messaging"
)

const (
	// stateParked is the label outcome of rows that were given up; the others have
	// the word of their completion.
	stateParked = "PARKED"
	noCategory  = "NONE"
)

// destination holds the series of one destination that every message touches,
// looked up once.
type destination struct {
	name, broker string
	attempts     [messaging.Ambiguous + 1]prometheus.Counter
	messages     [messaging.Ambiguous + 1]prometheus.Counter
	confirm      prometheus.Observer
}

// broker holds the series of one broker.
type broker struct {
	name               string
	inFlight, buffered prometheus.Gauge
}

// destination makes the series, so that they stand at zero before the first
// event: an alarm on an increase sees the first one too.
func (m *metrics) destination(name, brokerName string) *destination {
	d := &destination{name: name, broker: brokerName, confirm: m.publishConfirm.WithLabelValues(name)}
	for c := messaging.Confirmed; c <= messaging.Ambiguous; c++ {
		d.attempts[c] = m.publishAttempts.WithLabelValues(name, brokerName, c.String())
		d.messages[c] = m.publishMessages.WithLabelValues(name, c.String())
	}
	m.lateConfirmed.WithLabelValues(name)
	m.lateCommit.WithLabelValues(name)
	m.overtook.WithLabelValues(name)
	return d
}

func (m *metrics) broker(name string) *broker {
	return &broker{name: name, inFlight: m.publishInFlight.WithLabelValues(name), buffered: m.publishBuffered.WithLabelValues(name)}
}

// destination finds the series of a name. A name that the configuration does not
// hold comes from a row, whose writer must not be able to make series.
func (o *Observer) destination(name messaging.DestinationName) *destination {
	if d := o.destinations[name]; d != nil {
		return d
	}
	return o.other
}

func (o *Observer) broker(name string) *broker {
	if b := o.brokers[name]; b != nil {
		return b
	}
	return o.otherBroker
}

// known makes any completion an index: without a verdict it is ambiguous.
func known(c messaging.Completion) messaging.Completion {
	if c < messaging.Confirmed || c > messaging.Ambiguous {
		return messaging.Ambiguous
	}
	return c
}
