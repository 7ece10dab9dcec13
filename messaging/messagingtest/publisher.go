package messagingtest

import (
	"context"
	"time"

	"github.com/backend-skeleton/relay/messaging"
	"github.com/backend-skeleton/relay/messaging/transport"
)

// publisher is the publishing half of an adapter.
type publisher struct {
	b      *Broker
	a      *adapter
	closed bool // under the broker's lock
}

// answer is owed for one message.
type answer struct {
	p    *publisher
	i    int
	done func(int, messaging.PublishResult)
	say  messaging.PublishResult // what the broker would answer
	stop []func() bool
}

var _ transport.KeyPrefixer = (*publisher)(nil)

// KeyPrefix holds where the broker keeps the messages of a key together.
func (p *publisher) KeyPrefix(transport.Endpoint) bool {
	p.b.mu.Lock()
	defer p.b.mu.Unlock()
	return p.b.able.KeyedOrdering
}

// Publish answers on the caller's stack, except where a fault says otherwise.
func (p *publisher) Publish(ctx context.Context, to transport.Endpoint, ms []transport.Message, done func(int, messaging.PublishResult)) {
	c := &call{p: p, ctx: ctx, to: to, ms: ms, done: done, missing: map[string]bool{}, began: p.b.settings.clock.Now()}
	c.run()
}

// Close waits for what is unanswered; when ctx ends it is ambiguous.
func (p *publisher) Close(ctx context.Context) error {
	p.b.mu.Lock()
	p.closed = true
	p.b.mu.Unlock()
	if p.b.Await(ctx, func() bool { return len(p.open()) == 0 }) != nil {
		for _, a := range p.open() {
			a.giveUp(messaging.CodeConnectionLost, "the publisher was closed before the answer")
		}
	}
	return nil
}

// open lists the answers that the publisher waits for.
func (p *publisher) open() (open []*answer) {
	p.b.mu.Lock()
	defer p.b.mu.Unlock()
	for a := range p.b.owed {
		if a.p == p {
			open = append(open, a)
		}
	}
	return open
}

// answerNow gives the broker's own answer, unless the message has one.
func (a *answer) answerNow() { a.settle(a.say) }

func (a *answer) giveUp(code, text string) {
	a.settle(messaging.PublishResult{
		Completion: messaging.Ambiguous, Routing: messaging.RoutingUnknown, Attempts: 1, Elapsed: a.say.Elapsed,
		Evidence: messaging.Evidence{Transmission: messaging.Transmitted, Level: messaging.LevelNone},
		Failure:  messaging.NewFailure(messaging.CategoryAmbiguous, code, text),
	})
}

func (a *answer) settle(r messaging.PublishResult) {
	b := a.p.b
	b.mu.Lock()
	_, open := b.owed[a]
	delete(b.owed, a)
	b.mu.Unlock()
	if !open {
		return
	}
	for _, s := range a.stop {
		s()
	}
	a.done(a.i, r)
	b.wake()
}

// call is one Publish.
type call struct {
	p       *publisher
	ctx     context.Context // of the caller, who waits for nothing here
	to      transport.Endpoint
	ms      []transport.Message
	done    func(int, messaging.PublishResult)
	next    int             // the first message that is not looked at
	missing map[string]bool // keys of which a message was not stored
	began   time.Time
	stop    func() bool
}

// run goes on until every message is looked at or the broker blocks.
func (c *call) run() {
	for c.next < len(c.ms) {
		if c.halted() {
			return
		}
		i := c.next
		c.next++
		if r := c.one(i); r != nil {
			c.done(i, *r)
		}
	}
	if c.stop != nil {
		c.stop()
	}
}

// halted parks the call while the broker blocks; the end of its context refuses what is left.
func (c *call) halted() bool {
	b := c.p.b
	b.mu.Lock()
	defer b.mu.Unlock()
	if c.ctx.Err() != nil || c.p.closed || !b.stands(Block, string(c.to.Name), b.placeOf(c.to)) {
		return false
	}
	b.blocked = append(b.blocked, c)
	if c.stop == nil {
		c.stop = context.AfterFunc(c.ctx, c.leave)
	}
	b.tell()
	return true
}

// leave gives up a call that is blocked.
func (c *call) leave() {
	b := c.p.b
	b.mu.Lock()
	parked := false
	for i, other := range b.blocked {
		if other == c {
			b.blocked = append(b.blocked[:i], b.blocked[i+1:]...)
			parked = true
			break
		}
	}
	b.mu.Unlock()
	for parked && c.next < len(c.ms) {
		i := c.next
		c.next++
		c.done(i, *c.refused(messaging.CategoryThrottled, messaging.CodeBackpressure, "the broker asked to send nothing", messaging.NotTransmitted))
	}
}

// one decides one message; nil says that the answer comes later.
func (c *call) one(i int) *messaging.PublishResult {
	b := c.p.b
	b.mu.Lock()
	defer b.mu.Unlock()
	m := c.ms[i]
	if r := c.unsent(m); r != nil {
		return r
	}
	p := b.placeOf(c.to)
	if r := c.turnedAway(p, m); r != nil {
		c.miss(m)
		return r
	}
	if address := c.to.Physical["reply-to"]; address != "" {
		return c.reply(address, m)
	}
	at := b.store(p, string(c.to.Name), m)
	r := c.stored(p, at)
	if b.take(DropAck, string(c.to.Name), p) != nil {
		a := c.owe(i, r)
		a.stop = append(a.stop, context.AfterFunc(c.ctx, func() { a.giveUp(messaging.CodeConfirmTimeout, "no answer in time") }))
		return nil
	}
	if f := b.take(LateAck, string(c.to.Name), p); f != nil {
		a := c.owe(i, r)
		f.kept = append(f.kept, a.answerNow)
		if f.Delay > 0 {
			a.stop = append(a.stop, b.settings.clock.AfterFunc(f.Delay, a.answerNow))
		}
		return nil
	}
	return &r
}

// owe notes that the broker's answer comes later.
func (c *call) owe(i int, r messaging.PublishResult) *answer {
	a := &answer{p: c.p, i: i, done: c.done, say: r}
	c.p.b.owed[a] = struct{}{}
	c.p.b.tell()
	return a
}
