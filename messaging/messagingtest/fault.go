package messagingtest

import (
	"slices"
	"time"
)

// FaultKind is what goes wrong.
type FaultKind string

// Faults of publishing. Each strikes one message.
const (
	DropAck   FaultKind = "drop the ack" // stored, and no answer ever comes
	LateAck   FaultKind = "late ack"     // stored; the answer comes after Delay, without one when the fault is undone
	Return    FaultKind = "return"       // given back as unroutable, not stored
	Nack      FaultKind = "nack"         // refused, not stored
	Block     FaultKind = "block"        // back-pressure: nothing is sent until the fault is undone
	Cut       FaultKind = "cut"          // the connection ends in the middle of the message: not stored, and nobody can tell
	Down      FaultKind = "down"         // nobody answers: nothing is sent, nothing can be asked
	Reorder   FaultKind = "reorder"      // stored behind the next message of its unit
	Duplicate FaultKind = "duplicate"    // stored twice
)

// Faults of consuming. The first three strike one settlement, the others one
// moment of a consumer.
const (
	LoseSettlement FaultKind = "lose the settlement's answer" // settled, and the answer says UNKNOWN
	DropSettlement FaultKind = "drop the settlement"          // never arrives, and the answer says UNKNOWN
	LateSettlement FaultKind = "late settlement"              // settled; the answer comes as with LateAck
	Lose           FaultKind = "lose units"                   // the units are gone without a word, and come back in another epoch
	Revoke         FaultKind = "revoke units"                 // the units are asked back, and come back in another epoch
)

// Fault is something that goes wrong on purpose, see [Broker.Inject].
type Fault struct {
	Kind FaultKind
	// Destination is a logical destination, or a place; "" is every one.
	Destination string
	// After is how many messages, or for Lose and Revoke deliveries, pass first.
	After int
	// Count is how many are struck, 0 for all until it is undone. Lose and Revoke
	// strike once.
	Count int
	// Delay is how late an answer comes.
	Delay time.Duration
}

type fault struct {
	Fault
	met, struck int
	kept        []func() // what happens when it is undone
}

// Inject makes a fault happen. undo ends it: what it has held back goes on, and
// late answers come at once. It may be called more than once.
func (b *Broker) Inject(f Fault) (undo func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	in := &fault{Fault: f}
	b.faults = append(b.faults, in)
	if (f.Kind == Lose || f.Kind == Revoke) && f.After == 0 {
		b.strikeConsumers(in)
	}
	return func() { b.undo(in) }
}

func (b *Broker) undo(f *fault) {
	b.mu.Lock()
	b.faults = slices.DeleteFunc(b.faults, func(other *fault) bool { return other == f })
	kept := f.kept
	f.kept = nil
	if f.Kind == Reorder {
		b.release(f)
	}
	var resumed []*call
	if f.Kind == Block {
		resumed, b.blocked = b.blocked, nil
	}
	b.tell()
	b.mu.Unlock()
	for _, k := range kept {
		k()
	}
	for _, c := range resumed {
		c.run()
	}
}

// release stores what waited for a successor that did not come.
func (b *Broker) release(f *fault) {
	for _, p := range b.places {
		if late := p.behind; late != nil && late.late == f {
			late.late, p.behind = nil, nil
			b.append(p, late)
		}
	}
}

// take finds the fault of the kind that strikes now, if there is one.
func (b *Broker) take(k FaultKind, destination string, p *place) *fault {
	for _, f := range b.faults {
		if f.Kind != k || !f.concerns(destination, p) {
			continue
		}
		f.met++
		if f.met <= f.After || f.Count > 0 && f.struck >= f.Count {
			continue
		}
		f.struck++
		return f
	}
	return nil
}

// stands tells whether a fault is in force, without counting.
func (b *Broker) stands(k FaultKind, destination string, p *place) bool {
	return slices.ContainsFunc(b.faults, func(f *fault) bool { return f.Kind == k && f.concerns(destination, p) })
}

func (f *fault) concerns(destination string, p *place) bool {
	return f.Destination == "" || f.Destination == destination || p != nil && f.Destination == p.name
}

// strikeConsumers takes their units from the consumers that a fault concerns.
func (b *Broker) strikeConsumers(f *fault) {
	if f.struck++; f.struck > 1 {
		return
	}
	for c := range b.consumers {
		for _, g := range c.groups {
			if !f.concerns(string(c.sub.Endpoint.Name), g.place) {
				continue
			}
			if f.Kind == Lose {
				c.lose(g.place.name)
			} else {
				c.askBack(g.place.name)
			}
		}
	}
	b.tell()
}

// delivered counts a delivery for the faults that wait for one.
func (b *Broker) delivered(c *consumer, p *place) {
	for _, f := range b.faults {
		if (f.Kind == Lose || f.Kind == Revoke) && f.struck == 0 && f.concerns(string(c.sub.Endpoint.Name), p) {
			if f.met++; f.met >= f.After {
				b.strikeConsumers(f)
			}
		}
	}
}
