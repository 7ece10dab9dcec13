package messagingtest

import (
	"slices"

	"github.com/backend-skeleton/relay/messaging"
	"github.com/backend-skeleton/relay/messaging/transport"
)

// Put stores a message in a queue or topic that some other client wrote: whatever
// it is, no header is added. A place that nobody has named yet becomes a queue.
func (b *Broker) Put(place string, m transport.Message) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.append(b.place(place, false), &item{m: clone(m)})
}

// Stored gives everything that was ever stored in a place, in the order of
// storing, settled or not.
func (b *Broker) Stored(place string) []transport.Message {
	b.mu.Lock()
	defer b.mu.Unlock()
	p := b.places[place]
	if p == nil {
		return nil
	}
	out := make([]transport.Message, len(p.order))
	for i, it := range p.order {
		out[i] = clone(it.m)
	}
	return out
}

// Left gives what the group of a consumer has not settled yet, unit by unit in
// order, delivered or not. A queue has one group, whatever the consumer's name.
// A consumer that never subscribed has everything left.
func (b *Broker) Left(place string, c messaging.ConsumerName) []transport.Message {
	b.mu.Lock()
	defer b.mu.Unlock()
	p := b.places[place]
	if p == nil {
		return nil
	}
	g := b.group(p, c)
	var out []transport.Message
	for i, u := range p.units {
		for offset, it := range u.items {
			if g == nil || g.cursors[i].states[offset] == nil || !g.cursors[i].states[offset].settled {
				out = append(out, clone(it.m))
			}
		}
	}
	return out
}

// InFlight gives what is delivered to the group of a consumer and not settled,
// unit by unit in order.
func (b *Broker) InFlight(place string, c messaging.ConsumerName) []transport.Message {
	b.mu.Lock()
	defer b.mu.Unlock()
	p := b.places[place]
	if p == nil {
		return nil
	}
	g := b.group(p, c)
	if g == nil {
		return nil
	}
	var out []transport.Message
	for _, cur := range g.cursors {
		for offset, it := range cur.u.items {
			if st := cur.states[offset]; st != nil && st.by != nil {
				out = append(out, clone(it.m))
			}
		}
	}
	return out
}

func (b *Broker) group(p *place, c messaging.ConsumerName) *group {
	if p.topic {
		return b.groups[groupName{p.name, string(c)}]
	}
	return b.groups[groupName{place: p.name}]
}

// Units gives the units of a place that consumers hold, by name, each once for
// every consumer that holds it.
func (b *Broker) Units(place string) []transport.Unit {
	b.mu.Lock()
	defer b.mu.Unlock()
	var out []transport.Unit
	for c := range b.consumers {
		for _, h := range c.holds {
			if h.cur.g.place.name == place {
				out = append(out, h.unit)
			}
		}
	}
	slices.SortFunc(out, func(x, y transport.Unit) int {
		if x.Name != y.Name {
			if x.Name < y.Name {
				return -1
			}
			return 1
		}
		return int(x.Epoch) - int(y.Epoch)
	})
	return out
}

// Unanswered is how many publishes wait for an answer or for the broker to take
// messages again.
func (b *Broker) Unanswered() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := len(b.owed)
	for _, c := range b.blocked {
		n += len(c.ms) - c.next
	}
	return n
}
