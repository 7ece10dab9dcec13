package spool

import (
	"context"
	"sync"
	"time"

	"github.com/backend-skeleton/relay/messaging"
	"github.com/backend-skeleton/relay/messaging/transport"
)

// consumer reads one place, as one unit. Its one goroutine makes every call of the sink, so that they are serial.
type consumer struct {
	spool *Spool
	place string
	sub   transport.Subscription
	sink  transport.Sink
	unit  transport.Unit
	quit  chan struct{}
	over  sync.WaitGroup

	// Under the spool's lock.
	inHand     int
	bytes      int64
	paused     bool
	stopped    bool
	closed     bool
	delivering bool
}

func newConsumer(s *Spool, name string, sub transport.Subscription, sink transport.Sink) *consumer {
	s.mu.Lock()
	s.epoch++ // an assignment of its own: what was settled under an older one does not count
	unit := transport.Unit{Name: name, Epoch: s.epoch}
	s.mu.Unlock()
	c := &consumer{spool: s, place: name, sub: sub, sink: sink, unit: unit, quit: make(chan struct{})}
	c.over.Go(c.run)
	return c
}

func (c *consumer) run() {
	c.sink.Assigned([]transport.Unit{c.unit})
	for {
		c.spool.mu.Lock()
		d, changed := c.next(), c.spool.changed
		c.spool.mu.Unlock()
		if d != nil {
			c.sink.Deliver(*d)
			c.spool.mu.Lock()
			c.delivering = false
			c.spool.tell()
			c.spool.mu.Unlock()
			continue
		}
		select {
		case <-changed:
		case <-c.quit:
			return
		}
	}
}

// next takes the first message that is due and in nobody's hand, if there is room for one. The spool is locked.
func (c *consumer) next() *transport.Delivery {
	if c.paused || c.stopped || c.closed || c.inHand >= c.most() || c.inHand > 0 && c.full() {
		return nil
	}
	now := time.Now()
	for _, e := range c.spool.places[c.place].waiting {
		if e.holder != nil || e.due.After(now) {
			continue
		}
		e.holder, c.delivering = c, true
		c.inHand++
		c.bytes += int64(len(e.message.Value))
		m := e.message
		for _, h := range m.Header {
			if h.Name == transport.HeaderID {
				m.ID, _ = messaging.ParseMessageID(string(h.Value)) // zero for a foreign message
			}
		}
		return &transport.Delivery{
			Message: m, Unit: c.unit, Position: messaging.BrokerPosition{Broker: "spool", Text: position(c.place, e.number)},
			Redelivered: e.redelivered, Failed: e.failed, ReceivedAt: now, Tag: e,
		}
	}
	return nil
}

// most deliveries in hand.
func (c *consumer) most() int {
	if c.sub.Strict {
		return 1
	}
	return max(c.sub.Prefetch, 1)
}

func (c *consumer) full() bool {
	return c.sub.MaxBufferedBytes > 0 && c.bytes >= c.sub.MaxBufferedBytes
}

// Settle answers at once. A delivery that is not in this consumer's hand any more is unknown, and nothing is done for it.
func (c *consumer) Settle(d transport.Delivery, s transport.Settlement, done func(messaging.SettlementResult)) {
	done(c.settle(d, s))
}

func (c *consumer) settle(d transport.Delivery, s transport.Settlement) messaging.SettlementResult {
	c.spool.mu.Lock()
	defer c.spool.mu.Unlock()
	e, ours := d.Tag.(*entry)
	if !ours || d.Unit != c.unit || e.holder != c || c.closed {
		return unknown("the delivery is not in hand any more")
	}
	p := c.spool.places[c.place]
	var err error
	switch s.Verb {
	case transport.Ack, transport.Discard:
		err = c.spool.end(p, e)
	case transport.Fail:
		err = c.spool.again(p, e, true, s.Delay)
	case transport.Release:
		err = c.spool.again(p, e, false, s.Delay)
	default:
		return messaging.SettlementResult{
			Status: messaging.SettlementRejected, Proof: messaging.ProofNone,
			Failure: messaging.NewFailure(messaging.CategoryValidation, messaging.CodeInvalidMessage, "no verb of settlement"),
		}
	}
	if err != nil {
		return unknown("the disk failed")
	}
	e.holder = nil
	c.inHand--
	c.bytes -= int64(len(e.message.Value))
	return messaging.SettlementResult{Status: messaging.Settled, Proof: messaging.ProofBrokerAcked}
}

func unknown(text string) messaging.SettlementResult {
	return messaging.SettlementResult{
		Status: messaging.SettlementUnknown, Proof: messaging.ProofNone,
		Failure: messaging.NewFailure(messaging.CategoryAmbiguous, messaging.CodeUnknownOutcome, text),
	}
}

// Pause stops deliveries of the unit.
func (c *consumer) Pause(us ...transport.Unit) { c.setPaused(true, us) }

// Resume goes on with it.
func (c *consumer) Resume(us ...transport.Unit) { c.setPaused(false, us) }

func (c *consumer) setPaused(paused bool, us []transport.Unit) {
	c.spool.mu.Lock()
	defer c.spool.mu.Unlock()
	for _, u := range us {
		if u == c.unit {
			c.paused = paused
		}
	}
	c.spool.tell()
}

// Stop returns when no delivery is on its way to the sink and none will be.
func (c *consumer) Stop(ctx context.Context) error {
	for {
		c.spool.mu.Lock()
		c.stopped = true
		busy, changed := c.delivering, c.spool.changed
		c.spool.mu.Unlock()
		if !busy {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Close puts back what is not settled: others get it, and are told that it comes again.
func (c *consumer) Close(ctx context.Context) error {
	c.spool.mu.Lock()
	if !c.closed {
		c.closed = true
		for _, e := range c.spool.places[c.place].waiting {
			if e.holder == c {
				e.holder, e.redelivered = nil, true
			}
		}
		close(c.quit)
		c.spool.tell()
	}
	c.spool.mu.Unlock()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		c.over.Wait()
	}()
	select {
	case <-ended:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
