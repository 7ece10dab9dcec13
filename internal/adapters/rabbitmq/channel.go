package rabbitmq

import (
	"context"
	"errors"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/backend-skeleton/relay/messaging"
)

// sweepEvery is how often a channel with open messages looks for answers that the
// library holds back, and for messages past their patience.
const sweepEvery = 50 * time.Millisecond

// channel is one channel instance. serve is its only reader; publish has one
// caller at a time.
type channel struct {
	session *session
	amqp    *amqp.Channel
	pipe    *pipe
	window  int

	confirms chan amqp.Confirmation
	returns  chan amqp.Return
	closes   chan *amqp.Error
	busy     chan struct{} // a first message became open

	mu      sync.Mutex
	ledger  ledger
	proven  bool // the broker answered a publish on this instance
	retired bool // takes no new message
	sealed  bool // every message has its verdict
}

// openChannel prepares a channel: confirm mode, and a look at the exchange before
// anything is published to it, so that an absent one costs no message a doubt.
func openChannel(ctx context.Context, s *session, p *pipe, window int) (*channel, *messaging.Failure) {
	var c *channel
	err := s.do(ctx, func() error {
		opened, err := s.conn.Channel()
		if err != nil {
			return err
		}
		if err = opened.Confirm(false); err == nil && p.exchange != "" {
			err = opened.ExchangeDeclarePassive(p.exchange, amqp.ExchangeDirect, true, false, false, false, nil)
		}
		if err == nil {
			err = ctx.Err() // nobody waits any more
		}
		if err != nil {
			_ = opened.Close()
			return err
		}
		c = newChannel(s, opened, p, window)
		return nil
	})
	var said *amqp.Error
	switch {
	case err == nil:
		return c, nil
	case errors.As(err, &said) && channelException(said) && said.Code == amqp.NotFound:
		return nil, failExchange
	case errors.As(err, &said) && channelException(said) && said.Code == amqp.AccessRefused:
		return nil, failNotAllowed
	default:
		return nil, failUnreachable
	}
}

// newChannel listens. The buffers hold an answer and a return for every message
// that can be open, so that the library, which throws away what a full listener
// does not take, never meets a full one.
func newChannel(s *session, opened *amqp.Channel, p *pipe, window int) *channel {
	c := &channel{
		session: s, amqp: opened, pipe: p, window: window, ledger: newLedger(),
		confirms: make(chan amqp.Confirmation, window+1),
		returns:  make(chan amqp.Return, window+1),
		closes:   make(chan *amqp.Error, 1),
		busy:     make(chan struct{}, 1),
	}
	opened.NotifyClose(c.closes)
	opened.NotifyReturn(c.returns)
	opened.NotifyPublish(c.confirms)
	return c
}

// obstacle is why a message could not be written now.
type obstacle uint8

const (
	written     obstacle = iota
	gone                 // the instance takes no more
	blocked              // the broker blocks the connection
	bufferFull           // too many bytes wait for the socket
	windowFull           // too many messages wait for their answer
	mustBeAlone          // waits for the answers to what is open
)

// publish writes e, or says what stands in its way. It never blocks.
func (c *channel) publish(e *entry) obstacle {
	if c.session.blocked.Load() {
		return blocked
	}
	if c.session.conn.IsClosed() {
		return gone // serve is about to learn it
	}
	if c.session.wire.full() {
		return bufferFull
	}
	c.mu.Lock()
	switch {
	case c.retired || c.sealed:
		c.mu.Unlock()
		return gone
	case !c.ledger.admits(e, c.window, c.proven):
		full := c.ledger.open >= c.window
		c.mu.Unlock()
		if full {
			return windowFull
		}
		return mustBeAlone
	}
	e.start = c.session.wire.position()
	e.published = time.Now()
	c.ledger.add(e)
	first := c.ledger.open == 1
	c.mu.Unlock()

	deferred, err := c.amqp.PublishWithDeferredConfirm(e.route.exchange, e.message.routingKey, e.route.mandatory, false, e.message.publishing)
	c.mu.Lock()
	e.deferred = deferred
	if err != nil {
		// serve gives the verdict when the channel ends. The library answers
		// ErrClosed before it writes, unless the connection itself is gone.
		c.retired = true
		e.refused = errors.Is(err, amqp.ErrClosed) && !c.session.conn.IsClosed()
	}
	c.mu.Unlock()
	if err != nil && !c.amqp.IsClosed() {
		c.session.drop() // never seen: an error that leaves the channel open would leave the tags in doubt
	}
	if first {
		select {
		case c.busy <- struct{}{}:
		default:
		}
	}
	return written
}

// serve gives verdicts until the channel is gone and every message has one.
func (c *channel) serve() {
	sweep := time.NewTimer(time.Hour)
	defer sweep.Stop()
	for {
		select {
		case answer, ok := <-c.confirms:
			// The broker sends the return of a message before its confirm, and the
			// library delivers in that order: what is returned lies here already.
			c.takeReturns()
			if !ok {
				c.seal()
				return
			}
			c.answered(answer)
		case r, ok := <-c.returns:
			if ok {
				c.returned(r)
			} else {
				c.returns = nil
			}
		case <-c.busy:
			sweep.Reset(sweepEvery)
		case <-sweep.C:
			if c.sweep() {
				sweep.Reset(sweepEvery)
			}
		}
	}
}

// takeReturns takes every return that is here.
func (c *channel) takeReturns() {
	for {
		select {
		case r, ok := <-c.returns:
			if !ok {
				c.returns = nil
				return
			}
			c.returned(r)
		default:
			return
		}
	}
}

func (c *channel) returned(r amqp.Return) {
	c.mu.Lock()
	known := c.ledger.markReturned(r.MessageId)
	c.mu.Unlock()
	if !known {
		c.pipe.log.Error("a return names no open message", "destination", c.pipe.destination, "reply_code", r.ReplyCode)
	}
}

// answered joins a confirm with the return that came before it.
func (c *channel) answered(answer amqp.Confirmation) {
	c.mu.Lock()
	e := c.ledger.find(answer.DeliveryTag)
	if e == nil { // swept before
		c.mu.Unlock()
		return
	}
	c.settle(e)
	c.mu.Unlock()
	c.conclude(e, answer.Ack)
}

// settle takes e out of the ledger; c.mu is held.
func (c *channel) settle(e *entry) {
	c.ledger.settle(e)
	c.proven = true
	if c.ledger.open == 0 || c.ledger.open <= c.window*3/4 {
		c.pipe.changed.fire()
	}
}

// conclude gives the verdict that the broker's answer means.
func (c *channel) conclude(e *entry, ack bool) {
	if !ack || e.returned {
		c.pipe.publisher.adapter.proofs.disprove(e.route.proofKey())
	}
	switch {
	case !ack:
		e.resolve(refused(failNacked))
	case e.returned:
		e.resolve(refused(failUnroutable))
	default:
		e.resolve(confirmed(e.route.mandatory, c.pipe.publisher.level(e.route), e.position()))
	}
}

// sweep takes the answers that the library holds back until every earlier tag has
// one, and ends the channel when patience with a message is over. It tells
// whether messages are still open.
func (c *channel) sweep() bool {
	type early struct {
		e   *entry
		ack bool
	}
	var found []early
	c.mu.Lock()
	for _, e := range c.ledger.entries {
		if e.resolved || e.deferred == nil {
			continue
		}
		select {
		case <-e.deferred.Done():
			// A closing channel marks itself closed before it ends its confirmations
			// as refused: with an open one "not acknowledged" is a nack.
			if ack := e.deferred.Acked(); ack || !c.amqp.IsClosed() {
				found = append(found, early{e, ack})
			}
		default:
		}
	}
	c.mu.Unlock()
	c.takeReturns() // what is acknowledged by now was returned before
	c.mu.Lock()
	for _, f := range found {
		c.settle(f.e)
	}
	open := c.ledger.open > 0
	overdue := !c.retired && c.ledger.overdue(time.Now())
	if overdue {
		c.retired = true
	}
	c.mu.Unlock()
	for _, f := range found {
		c.conclude(f.e, f.ack)
	}
	if overdue {
		c.pipe.log.Warn("no answer in time, closing the channel", "destination", c.pipe.destination)
		c.session.bid(c.pipe.publisher.adapter.cfg.CloseTimeout, c.amqp.Close)
	}
	return open
}

// retire lets no further message in.
func (c *channel) retire() {
	c.mu.Lock()
	c.retired = true
	c.mu.Unlock()
}

// seal gives every open message its last verdict: the channel is gone.
func (c *channel) seal() {
	var said *amqp.Error
	select {
	case said = <-c.closes:
	default:
	}
	// What publish may still be writing to an entry is copied under the lock.
	type last struct {
		e                         *entry
		returned, acked, unwanted bool
	}
	c.mu.Lock()
	c.sealed = true
	var rest []last
	left := 0
	for _, e := range c.ledger.rest() {
		l := last{e: e, returned: e.returned, acked: e.deferred != nil && e.deferred.Acked(), unwanted: e.refused}
		if !l.returned && !l.acked {
			left++
		}
		rest = append(rest, l)
		c.ledger.settle(e)
	}
	c.mu.Unlock()
	end := ending{said: said, connection: c.session.conn.IsClosed(), alone: left == 1, stopped: c.pipe.publisher.stopped()}
	if end.connection {
		c.session.drop() // from here on nothing more is offered to the socket
	}

	now := time.Now()
	for _, l := range rest {
		switch {
		case l.returned: // the broker said that no queue took it
			c.pipe.publisher.adapter.proofs.disprove(l.e.route.proofKey())
			l.e.resolve(refused(failUnroutable))
		case l.acked:
			c.conclude(l.e, true)
		case l.unwanted: // nothing of it was written
			l.e.resolve(notSent(failGone))
		default:
			r := end.verdict(l.e, c.session.wire, now)
			if r.Failure == failChannelClosed && channelException(said) {
				c.pipe.publisher.suspects.add(l.e.id)
			}
			l.e.resolve(r)
		}
	}
	if end.alone && channelException(said) {
		c.pipe.blame(culprit(said))
	}
	if said != nil && len(rest) > 0 {
		c.pipe.log.Warn("channel ended with open messages", "destination", c.pipe.destination, "reply_code", said.Code, "open", len(rest))
	}
}

// ending is how a channel ended, as far as its open messages need it.
type ending struct {
	said       *amqp.Error // nil when this side closed
	connection bool        // the whole connection is gone
	alone      bool        // one message was open
	stopped    bool        // the publisher is being closed
}

// verdict judges a message that was open to the end and never answered.
func (end ending) verdict(e *entry, w *wire, now time.Time) messaging.PublishResult {
	switch {
	case end.connection && w.unsent(e.start):
		return notSent(failUnreachable)
	case now.Sub(e.published) >= e.giveUp, end.stopped && !channelException(end.said):
		return unknown(failTimeout)
	case !channelException(end.said) && (end.connection || end.said != nil):
		return unknown(failConnectionLost)
	case end.alone && channelException(end.said):
		if f := culprit(end.said); f != nil {
			return refused(f)
		}
	}
	return unknown(failChannelClosed)
}
