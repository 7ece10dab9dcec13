package rabbitmq

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/backend-skeleton/relay/messaging"
)

// refusalLife is how long the reason why no channel could be had answers for the
// broker; after it the next message asks again.
const refusalLife = 250 * time.Millisecond

// pipe is one place in the order of an endpoint: at most one channel instance at
// a time, and messages in the order in which they came.
type pipe struct {
	publisher   *Publisher
	destination messaging.DestinationName
	exchange    string
	log         *slog.Logger
	turn        chan struct{} // held by the one who writes
	changed     signal        // channel come or gone, answers received, refused

	mu        sync.Mutex
	current   *channel
	wanted    bool // a message waits for a channel
	wake      chan struct{}
	refusal   *messaging.Failure
	refusedAt time.Time
}

func newPipe(p *Publisher, r *route) *pipe {
	return &pipe{
		publisher: p, destination: r.destination, exchange: r.exchange, log: p.adapter.link.log,
		turn: make(chan struct{}, 1), wake: make(chan struct{}, 1),
	}
}

// run opens a channel whenever one is wanted, serves it to its end, and starts
// anew. ctx ends it; the channel is closed by close.
func (p *pipe) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-p.wake:
		}
		c, failure := p.open(ctx)
		if failure != nil {
			p.settle(nil, failure)
			continue
		}
		p.settle(c, nil)
		if ctx.Err() != nil {
			p.end(c, p.publisher.adapter.cfg.CloseTimeout)
		}
		c.serve()
		// Only now: every message of the old instance has its verdict before the first
		// one enters the next.
		p.settle(nil, p.blamed())
	}
}

// open gets a channel on the connection, or on the next one if this one ends
// meanwhile.
func (p *pipe) open(ctx context.Context) (*channel, *messaging.Failure) {
	for {
		s, failure := p.publisher.adapter.link.next(ctx)
		if failure != nil {
			return nil, failure
		}
		c, failure := openChannel(ctx, s, p, p.publisher.adapter.cfg.window())
		if failure == failUnreachable && s.gone() && ctx.Err() == nil {
			continue
		}
		return c, failure
	}
}

// settle makes c the channel, or f the reason why there is none.
func (p *pipe) settle(c *channel, f *messaging.Failure) {
	p.mu.Lock()
	p.current = c
	p.wanted = false
	p.refusal = f
	p.refusedAt = time.Now()
	p.mu.Unlock()
	p.changed.fire()
}

// blame keeps a refusal that concerns the exchange, not one message: it answers
// those who wait behind the refused one.
func (p *pipe) blame(f *messaging.Failure) {
	if f == nil || f.Category == messaging.CategoryValidation {
		return
	}
	p.mu.Lock()
	p.refusal = f
	p.refusedAt = time.Now()
	p.mu.Unlock()
}

func (p *pipe) blamed() *messaging.Failure {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.refusal
}

// channel gives the channel instance, or a reason that is young enough, or
// neither: then one is on its way.
func (p *pipe) channel() (*channel, *messaging.Failure) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.current != nil:
		return p.current, nil
	case p.refusal != nil && time.Since(p.refusedAt) < refusalLife:
		return nil, p.refusal
	}
	p.refusal = nil
	if !p.wanted {
		p.wanted = true
		p.wake <- struct{}{}
	}
	return nil, nil
}

// publish writes e in its turn. A failure means that nothing was written and e is
// still the caller's; without one the verdict comes through e.
func (p *pipe) publish(ctx context.Context, e *entry) *messaging.Failure {
	select {
	case p.turn <- struct{}{}:
	default:
		select {
		case p.turn <- struct{}{}:
		case <-ctx.Done():
			return failNotSent
		case <-p.publisher.closing:
			return failClosed
		}
	}
	defer func() { <-p.turn }()
	for {
		changed, linkChanged := p.changed.wait(), p.publisher.adapter.link.changed.wait()
		if e.key.broken() {
			return failPredecessor
		}
		select {
		case <-ctx.Done():
			return failNotSent
		case <-p.publisher.closing:
			return failClosed
		default:
		}
		why := failUnreachable
		c, refusal := p.channel()
		switch {
		case refusal != nil:
			return refusal
		case c != nil:
			if f := e.message.fits(c.session.frameSize()); f != nil {
				return f
			}
			switch c.publish(e) {
			case written:
				return nil
			case blocked:
				why = failBlocked
			case bufferFull:
				why = failBuffer
			case windowFull, mustBeAlone: // it says nothing about other destinations
				why = failBehind
			}
		case p.publisher.adapter.link.blocked():
			why = failBlocked // no channel is opened either
		}
		select {
		case <-changed:
		case <-linkChanged:
		case <-ctx.Done():
			return why
		case <-p.publisher.closing:
			return failClosed
		}
	}
}

// end closes the channel for good; without an answer in time the connection is
// dropped with it.
func (p *pipe) end(c *channel, patience time.Duration) {
	c.retire()
	if patience <= 0 {
		c.session.drop()
		return
	}
	c.session.bid(patience, c.amqp.Close)
}
