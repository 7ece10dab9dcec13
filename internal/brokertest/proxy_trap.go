package brokertest

import (
	"sync"
	"testing"
	"time"
)

// Fault is what a Trap does to a publish: a produce request of Kafka, or the last frame of an AMQP message.
type Fault int

// The faults, in the order of what the broker has done when they strike.
const (
	// CutBefore cuts the connection instead of forwarding: nothing is stored.
	CutBefore Fault = iota
	// CutAfter forwards and cuts at once: the broker gets it all, some time later, and the client cannot know. RabbitMQ may
	// hear of the end before its channel has taken the message in, and then does not store it.
	CutAfter
	// CutAtAnswer forwards and cuts when the broker has answered: stored, as far as the answer was good, and unheard.
	CutAtAnswer
	// SwallowAnswer forwards and swallows the one answer; the connection goes on. On Kafka, whose answers come in order,
	// a client takes the next answer for a broken protocol: use MuteFrom there.
	SwallowAnswer
	// MuteFrom forwards, and from the answer on nothing of the server's comes through on this connection.
	MuteFrom
	// HoldAnswer forwards and holds the answer, and what follows it on this connection, until Release.
	HoldAnswer
)

// Publish is a publish on its way to the broker.
type Publish struct {
	// Link numbers the connection, from 1 in order of opening.
	Link int
	// Bytes is the whole produce request of Kafka, or the last frame of an AMQP message.
	Bytes []byte

	// Topics are the topics of a produce request.
	Topics []string

	// Channel, Exchange, RoutingKey and Body are those of an AMQP message.
	Channel              uint16
	Exchange, RoutingKey string
	Body                 []byte

	number uint64 // ties answers to it, within its link
}

// Trap waits for publishes and strikes each of the first n.
type Trap struct {
	fault    Fault
	match    func(*Publish) bool
	released chan struct{}
	release  sync.Once

	mu      sync.Mutex
	left    int // negative: without end
	struck  int
	changed chan struct{} // closed and replaced when struck grows
}

// Trap sets a fault for the next n publishes that match, on any connection; n < 0 means all from now on, match nil any.
// Traps are asked in the order in which they were set, and the first that matches strikes. The match function must not
// keep the Publish.
func (p *Proxy) Trap(fault Fault, n int, match func(*Publish) bool) *Trap {
	trap := &Trap{fault: fault, match: match, left: n, released: make(chan struct{}), changed: make(chan struct{})}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.traps = append(p.traps, trap)
	return trap
}

// spring finds the trap that strikes a publish.
func (p *Proxy) spring(published *Publish) *Trap {
	p.mu.Lock()
	traps := p.traps[:len(p.traps):len(p.traps)]
	p.mu.Unlock()
	for _, trap := range traps {
		if (trap.match == nil || trap.match(published)) && trap.take() {
			return trap
		}
	}
	return nil
}

func (trap *Trap) take() bool {
	trap.mu.Lock()
	defer trap.mu.Unlock()
	if trap.left > 0 {
		trap.left--
		return true
	}
	return trap.left < 0
}

// count notes that the fault has happened.
func (trap *Trap) count() {
	trap.mu.Lock()
	defer trap.mu.Unlock()
	trap.struck++
	close(trap.changed)
	trap.changed = make(chan struct{})
}

// Struck counts the faults that have happened: connections cut, answers swallowed or held. For a fault at the answer that
// means that the broker has answered.
func (trap *Trap) Struck() int {
	trap.mu.Lock()
	defer trap.mu.Unlock()
	return trap.struck
}

// Wait returns when the fault has happened n times, and fails the test when limit passes before.
func (trap *Trap) Wait(t testing.TB, n int, limit time.Duration) {
	t.Helper()
	deadline := time.NewTimer(limit)
	defer deadline.Stop()
	for {
		trap.mu.Lock()
		struck, changed := trap.struck, trap.changed
		trap.mu.Unlock()
		if struck >= n {
			return
		}
		select {
		case <-changed:
		case <-deadline.C:
			t.Fatalf("the fault happened %d times within %v, want %d", struck, limit, n)
		}
	}
}

// Remove ends the trap; publishes that it has struck stay struck.
func (trap *Trap) Remove() {
	trap.mu.Lock()
	defer trap.mu.Unlock()
	trap.left = 0
}

// Release lets the answers go that HoldAnswer holds, and those that it would still hold.
func (trap *Trap) Release() { trap.release.Do(func() { close(trap.released) }) }
