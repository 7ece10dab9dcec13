package messagingtest

import (
	"github.com/backend-skeleton/relay/messaging"
	"github.com/backend-skeleton/relay/messaging/transport"
)

// tag finds a delivery again.
type tag struct {
	h      *hold
	offset int
}

// Settle answers from another goroutine, in the order of the calls; once the
// consumer is closed, on the caller's stack.
func (c *consumer) Settle(d transport.Delivery, s transport.Settlement, done func(messaging.SettlementResult)) {
	if done == nil {
		done = func(messaging.SettlementResult) {}
	}
	if r := c.settle(d, s, done); r != nil {
		done(*r)
	}
}

// settle queues the answer, unless it gives it.
func (c *consumer) settle(d transport.Delivery, s transport.Settlement, done func(messaging.SettlementResult)) *messaging.SettlementResult {
	b := c.b
	b.mu.Lock()
	defer b.mu.Unlock()
	t, ours := d.Tag.(tag)
	if !ours || t.h.c != c || t.h.dead || t.h.unit != d.Unit {
		r := unknown(messaging.CodeChannelClosed, "the unit of the delivery is gone")
		if c.closed {
			return &r
		}
		c.answer(done, r)
		return nil
	}
	place, name := t.h.cur.g.place, string(c.sub.Endpoint.Name)
	if b.take(DropSettlement, name, place) != nil {
		c.answer(done, unknown(messaging.CodeConnectionLost, "the settlement was not answered"))
		return nil
	}
	r := c.apply(t, s)
	if b.take(LoseSettlement, name, place) != nil {
		r = unknown(messaging.CodeConnectionLost, "the settlement was not answered")
	}
	if f := b.take(LateSettlement, name, place); f != nil {
		c.answerLater(f, done, r)
		return nil
	}
	c.answer(done, r)
	return nil
}

// apply does what the settlement says, as far as the broker can.
func (c *consumer) apply(t tag, s transport.Settlement) messaging.SettlementResult {
	b, able := c.b, c.b.able
	st := t.h.cur.states[t.offset]
	if st.by != t.h {
		return refusedSettlement(messaging.CodeInvalidMessage, "the delivery is settled already")
	}
	switch s.Verb {
	case transport.Ack, transport.Discard:
		st.by, st.settled = nil, true
		t.h.letGo(t.offset)
		return messaging.SettlementResult{Status: messaging.Settled, Proof: c.proof(t)}
	case transport.Fail:
		if !able.PerMessageSettlement || s.Delay > 0 && !able.DelayedDelivery {
			return refusedSettlement(messaging.CodeCapabilityUnavailable, "the broker counts and delays nothing here")
		}
		t.h.letGo(t.offset)
		b.failed(t.h.cur, t.offset, s.Delay)
		return messaging.SettlementResult{Status: messaging.Settled, Proof: c.proof(t)}
	case transport.Release:
		if !able.PerMessageSettlement { // the position stays behind it: the next epoch begins there
			return messaging.SettlementResult{Status: messaging.Settled, Proof: messaging.ProofNone}
		}
		t.h.letGo(t.offset)
		b.giveBack(t.h.cur, t.offset, 0)
		return messaging.SettlementResult{Status: messaging.Settled, Proof: c.proof(t)}
	default:
		return refusedSettlement(messaging.CodeInvalidMessage, "there is no such verb")
	}
}

// letGo takes an offset out of the consumer's hand.
func (h *hold) letGo(offset int) {
	h.bytes -= h.inHand[offset]
	delete(h.inHand, offset)
}

func (c *consumer) proof(t tag) messaging.SettlementProof {
	switch {
	case c.b.settings.proof != 0:
		return c.b.settings.proof
	case t.h.cur.g.place.topic:
		return messaging.ProofBrokerAcked
	default:
		return messaging.ProofWritten
	}
}

func unknown(code, text string) messaging.SettlementResult {
	return messaging.SettlementResult{
		Status: messaging.SettlementUnknown, Proof: messaging.ProofNone,
		Failure: messaging.NewFailure(messaging.CategoryAmbiguous, code, text),
	}
}

func refusedSettlement(code, text string) messaging.SettlementResult {
	return messaging.SettlementResult{
		Status: messaging.SettlementRejected, Proof: messaging.ProofNone,
		Failure: messaging.NewFailure(messaging.CategoryValidation, code, text),
	}
}

// answer queues an answer; the broker is locked.
func (c *consumer) answer(done func(messaging.SettlementResult), r messaging.SettlementResult) {
	c.answers = append(c.answers, func() { done(r) })
	c.b.tell()
}

// answerLater answers when the fault's delay is over or the fault is undone, whichever is first.
func (c *consumer) answerLater(f *fault, done func(messaging.SettlementResult), r messaging.SettlementResult) {
	given := false
	give := func() {
		c.b.mu.Lock()
		if given || c.closed { // the end of the consumer has answered it
			c.b.mu.Unlock()
			return
		}
		given = true
		c.answer(done, r)
		c.b.mu.Unlock()
	}
	c.late = append(c.late, func() {
		if !given {
			given = true
			c.answer(done, unknown(messaging.CodeChannelClosed, "the consumer was closed before the answer"))
		}
	})
	f.kept = append(f.kept, give)
	if f.Delay > 0 {
		c.b.settings.clock.AfterFunc(f.Delay, give)
	}
}

// answerAll gives the answers until the consumer is closed and all are given.
func (c *consumer) answerAll() {
	for {
		c.b.mu.Lock()
		due, closed, changed := c.answers, c.closed, c.b.wait()
		c.answers = nil
		c.b.mu.Unlock()
		for _, a := range due {
			a()
		}
		if len(due) > 0 {
			c.b.wake()
			continue
		}
		if closed {
			return
		}
		select {
		case <-changed:
		case <-c.quit:
		}
	}
}
