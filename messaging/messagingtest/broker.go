package messagingtest

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"sync"

	"github.com/backend-skeleton/relay/messaging"
	"github.com/backend-skeleton/relay/messaging/transport"
)

// Broker is a message broker in memory. Make it with [NewBroker], connect to it
// by [Broker.Adapter]; it is safe for concurrent use and needs no end of its own:
// consumers and adapters that are closed leave no goroutine.
//
// A destination's Physical says which place it is. With a topic it is a log in
// partitions: messages stay, every group reads all of them, and a partition
// belongs to one consumer of a group at a time. Everything else is a queue, by
// "queue", else "exchange" and "routing-key", else the destination's name: its
// consumers compete for messages, which are gone once they are settled.
type Broker struct {
	settings settings

	mu        sync.Mutex // guards everything below and all that is reachable from it
	able      messaging.Capabilities
	changed   chan struct{} // closed at the next change, if anybody waits
	waiting   bool
	places    map[string]*place
	groups    map[groupName]*group
	consumers map[*consumer]struct{}
	replies   map[string]*replyQueue
	owed      map[*answer]struct{} // publishes that nobody has answered yet
	blocked   []*call              // by back-pressure, in the order of their calls
	faults    []*fault
	epoch     uint64 // of the youngest unit
}

// NewBroker makes a broker whose places can do what able says, and nothing else.
func NewBroker(able messaging.Capabilities, options ...Option) *Broker {
	b := &Broker{
		settings: defaults(), able: able, places: map[string]*place{}, groups: map[groupName]*group{},
		consumers: map[*consumer]struct{}{}, replies: map[string]*replyQueue{}, owed: map[*answer]struct{}{},
	}
	for _, o := range options {
		o(&b.settings)
	}
	return b
}

// Change replaces what the broker can do from now on, as when a proof is lost.
func (b *Broker) Change(able messaging.Capabilities) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.able = able
}

// Restart cuts every connection, as a broker does that starts anew: consumers
// lose their units and get them back in another epoch, and what waits for an
// answer is ambiguous. Nothing that was stored is gone.
func (b *Broker) Restart() {
	b.mu.Lock()
	for c := range b.consumers {
		c.lose("")
	}
	open := slices.Collect(maps.Keys(b.owed))
	b.tell()
	b.mu.Unlock()
	for _, a := range open {
		a.giveUp(messaging.CodeConnectionLost, "the broker started anew before the answer")
	}
}

// Await returns once the condition holds, and earlier with ctx's error. The
// condition is asked at the start and after every change at the broker, never
// while the broker is locked.
func (b *Broker) Await(ctx context.Context, condition func() bool) error {
	for {
		b.mu.Lock()
		changed := b.wait()
		b.mu.Unlock()
		if condition() {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// tell wakes whoever waits for a change.
func (b *Broker) tell() {
	if b.waiting {
		b.waiting = false
		close(b.changed)
	}
}

// wait gives what is closed at the next change.
func (b *Broker) wait() <-chan struct{} {
	if !b.waiting {
		b.waiting = true
		b.changed = make(chan struct{})
	}
	return b.changed
}

// placeOf finds or makes the place of an endpoint.
func (b *Broker) placeOf(e transport.Endpoint) *place {
	name, topic := physical(e)
	return b.place(name, topic)
}

// physical gives the name of an endpoint's place, and whether that is a topic.
func physical(e transport.Endpoint) (name string, topic bool) {
	p := e.Physical
	switch {
	case p["topic"] != "":
		return p["topic"], true
	case p["queue"] != "":
		return p["queue"], false
	case p["exchange"] != "" || p["routing-key"] != "":
		return p["exchange"] + "/" + p["routing-key"], false
	default:
		return string(e.Name), false
	}
}

// PlaceOf names the place of an endpoint, for the methods that look into it.
func PlaceOf(e transport.Endpoint) string {
	name, _ := physical(e)
	return name
}

func (b *Broker) place(name string, topic bool) *place {
	p := b.places[name]
	if p == nil {
		p = &place{name: name, topic: topic, seen: map[string]*item{}}
		units := 1
		if topic {
			units = b.settings.partitions
		}
		for i := range units {
			u := &unit{name: name}
			if topic {
				u.name += "/" + strconv.Itoa(i)
			}
			p.units = append(p.units, u)
		}
		b.places[name] = p
	}
	return p
}
