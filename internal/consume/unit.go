package consume

import (
	"context"

	"github.com/backend-skeleton/relay/messaging"
	"github.com/backend-skeleton/relay/messaging/transport"
)

// unit is a partition or queue in one assignment. All of it belongs to the dispatcher.
type unit struct {
	transport.Unit
	ctx    context.Context // of its handlers: ends when the unit is lost
	cancel context.CancelCauseFunc
	lanes  map[string]*lane
	// waiting deliveries that no handler has, running handlers, and results that are on their way to the settlement.
	waiting, running, open int
	leaving                bool // no handler starts
	gone                   bool // nothing may be settled
	failing                int  // hand-overs that were not confirmed
	pauses                 reasons
	stopped                bool   // the adapter was told to pause
	whenIdle               func() // called once when open is 0
}

// lane is an ordering unit: a partition, a queue, a key of one, or the whole consumer. Where nothing is ordered it is a
// queue out of which several handlers take.
type lane struct {
	u       *unit
	key     string
	queue   fifo[*item]
	running int
	held    int // waits and hand-overs that the lane stands still for
	ready   bool
}

// item is one delivery on its way.
type item struct {
	d    transport.Delivery
	u    *unit
	l    *lane
	at   State
	read bool // fields are
	// fields are the headers, as far as they could be read.
	fields   transport.WireFields
	attempt  int // of the call that runs or comes next, the first being 1
	outage   int
	first    string // time of the first failure, as it travels
	doubt    bool   // an attempt may have had an effect
	early    bool   // settled before its handler
	waits    bool   // its due time is waited for, or over
	counted  bool   // among the waiting ones of its unit
	control  *controller
	pending  *messaging.PauseAndRetry // in place, once the handler has returned
	open     bool                     // among the open ones of its unit
	outcome  string
	broken   bool
	settling settling
}

func (i *item) size() int64 { return int64(len(i.d.Value)) }

// step takes a step. One that there is not is taken all the same, since the delivery has to end, and told.
func (k *Consumer) step(i *item, s State) {
	if !i.at.Next(s) {
		k.c.Hooks.misstep(i.at, s)
	}
	i.at = s
}

// kind is the message's type for metrics, as far as the catalogue bounds it.
func (i *item) kind(c *Config) messaging.MessageType {
	if _, known := c.Types[i.fields.Type]; known {
		return i.fields.Type
	}
	for _, r := range c.Routes {
		if r.Type == i.fields.Type {
			return r.Type
		}
	}
	return ""
}

// reasons is a set of reasons to pause.
type reasons map[string]struct{}

// Reasons that the runtime itself has; an application's own are words of its choice.
const (
	reasonBackpressure = "backpressure"
	reasonHandover     = "dlq-outage"
	reasonExhausted    = "exhausted"
	reasonOutage       = "outage"
	reasonNoPlace      = "no-place"
)

// stops tells whether no handler may start. A unit that is only paused for its buffer works on, and in an outage every
// ordering unit waits for itself.
func (r reasons) stops() bool {
	for reason := range r {
		if reason != reasonBackpressure && reason != reasonOutage {
			return true
		}
	}
	return false
}

// closes tells whether nothing may be delivered.
func (r reasons) closes() bool {
	for reason := range r {
		if reason != reasonOutage {
			return true
		}
	}
	return false
}
