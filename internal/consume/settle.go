package consume

import (
	"time"

	"github.com/backend-skeleton/relay/messaging"
	"github.com/backend-skeleton/relay/messaging/transport"
)

// settling is a settlement whose answer is awaited.
type settling struct {
	verb string
	sent time.Time
	open bool
	done func(messaging.SettlementResult) // nil: the delivery ends with the answer
}

// finish acknowledges a delivery that is done. What was settled before its handler is done already.
func (k *Consumer) finish(i *item) {
	if i.early {
		k.conclude(i)
		return
	}
	k.send(i, transport.Settlement{Verb: transport.Ack})
}

// send settles a delivery that the runtime is done with: its unit may go.
func (k *Consumer) send(i *item, s transport.Settlement) {
	if i.u.gone {
		k.unsettled(i)
		return
	}
	k.step(i, SettlementSending)
	k.settle(i, s, nil)
	k.closeItem(i)
}

// settle sends a settlement; done is called in the dispatcher's goroutine, once.
func (k *Consumer) settle(i *item, s transport.Settlement, done func(messaging.SettlementResult)) {
	i.settling = settling{verb: s.Verb.String(), sent: time.Now(), open: true, done: done}
	k.settling.push(i)
	k.edge.Settle(i.d, s, func(r messaging.SettlementResult) {
		k.box.put(event{kind: settlementAnswered, item: i, result: r})
	})
}

// answered takes the answer to a settlement; only the first counts.
func (k *Consumer) answered(i *item, r messaging.SettlementResult) {
	s := i.settling
	if !s.open {
		return
	}
	i.settling.open, i.settling.done = false, nil
	if r.Status == messaging.Settled {
		k.step(i, Settled)
	} else {
		k.step(i, SettlementUnknown)
	}
	k.c.Hooks.settled(s.verb, r, time.Since(s.sent))
	if i.control != nil {
		i.control.settled(r)
	}
	if s.done != nil {
		s.done(r)
	} else {
		k.c.Hooks.ended(i.kind(&k.c), i.outcome, i.broken)
	}
	for k.settling.len() > 0 && !k.settling.all()[0].settling.open {
		k.settling.drop(1)
	}
}

// giveUpSettlements ends what got no answer for too long. It may be settled or not: the message may come again.
func (k *Consumer) giveUpSettlements(now time.Time) {
	for k.settling.len() > 0 {
		i := k.settling.all()[0]
		if i.settling.open && now.Sub(i.settling.sent) < k.c.SettleTimeout {
			return
		}
		k.answered(i, messaging.SettlementResult{
			Status: messaging.SettlementUnknown, Proof: messaging.ProofNone,
			Failure: messaging.NewFailure(messaging.CategoryAmbiguous, messaging.CodeConfirmTimeout, "the settlement got no answer in time"),
		})
	}
}

// unsettled leaves a delivery to whoever gets it next.
func (k *Consumer) unsettled(i *item) {
	i.outcome = outcomeUnsettled
	k.conclude(i)
	if i.control != nil {
		i.control.settled(messaging.SettlementResult{
			Status: messaging.SettlementUnknown, Proof: messaging.ProofNone,
			Failure: messaging.NewFailure(messaging.CategoryAmbiguous, messaging.CodeUnknownOutcome, "the unit is gone, or the consumer stops: the message comes again"),
		})
	}
}

// conclude ends a delivery that is not settled now.
func (k *Consumer) conclude(i *item) {
	k.c.Hooks.ended(i.kind(&k.c), i.outcome, false)
	k.closeItem(i)
}
