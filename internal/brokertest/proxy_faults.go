package brokertest

import "time"

// gate is what holds for all bytes of one direction.
type gate struct {
	stalled chan struct{} // closed when the stall ends; nil without one
	drop    bool
	delay   time.Duration
}

// Stall holds back what flows in these directions, in both without an argument: connections stay open, new ones are
// taken, nothing gets through and nothing is lost. Resume ends it.
func (p *Proxy) Stall(directions ...Direction) {
	p.each(directions, func(g *gate) {
		if g.stalled == nil {
			g.stalled = make(chan struct{})
		}
	})
}

// Resume lets flow what Stall held back.
func (p *Proxy) Resume() {
	p.each(nil, func(g *gate) {
		if g.stalled != nil {
			close(g.stalled)
			g.stalled = nil
		}
	})
}

// Drop swallows what flows in these directions, in both without an argument, until Pass: a network that takes everything
// and brings nothing. The swallowed bytes never come, so connections that were used meanwhile are broken for good: cut
// them.
func (p *Proxy) Drop(directions ...Direction) { p.each(directions, func(g *gate) { g.drop = true }) }

// DropReplies swallows what the server answers, until Pass.
func (p *Proxy) DropReplies() { p.Drop(ToClient) }

// Pass ends Drop.
func (p *Proxy) Pass() { p.each(nil, func(g *gate) { g.drop = false }) }

// Delay adds a latency to each direction, both without an argument, from now on; 0 ends it. Order is kept, and
// up to 1,024 chunks are on their way at once.
func (p *Proxy) Delay(d time.Duration, directions ...Direction) {
	p.each(directions, func(g *gate) { g.delay = d })
}

func (p *Proxy) each(directions []Direction, change func(*gate)) {
	if len(directions) == 0 {
		directions = []Direction{ToServer, ToClient}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, d := range directions {
		change(&p.gates[d])
	}
}

func (p *Proxy) gate(d Direction) gate {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.gates[d]
}

// Chunk is a piece of a connection on its way: a whole frame for Kafka and AMQP, whatever was read at once else.
type Chunk struct {
	// Link numbers the connection, from 1 in order of opening.
	Link      int
	Direction Direction
	Bytes     []byte
}

// Verdict is what becomes of a Chunk.
type Verdict int

// The verdicts of an Intercept hook.
const (
	Forward Verdict = iota
	Swallow         // it does not arrive; the connection stays open
	CutHere         // it does not arrive; the connection is cut
)

// Intercept asks hook about every chunk of every connection, from now on; nil ends it. The hook runs on the connection's
// goroutine, may block, and must not keep the bytes.
func (p *Proxy) Intercept(hook func(Chunk) Verdict) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.hook = hook
}

func (p *Proxy) ask(c Chunk) Verdict {
	p.mu.Lock()
	hook := p.hook
	p.mu.Unlock()
	if hook == nil {
		return Forward
	}
	return hook(c)
}
