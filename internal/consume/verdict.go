package consume

import (
	"math/rand/v2"
	"time"

	"github.com/backend-skeleton/relay/messaging"
	"github.com/backend-skeleton/relay/messaging/transport"
)

// returned frees what a call has held, and acts on its verdicts.
func (k *Consumer) returned(j *job) {
	j.l.running--
	j.u.running--
	k.running--
	k.mu.Lock()
	delete(k.jobs, j)
	k.mu.Unlock()
	var again []*item
	var pause messaging.PauseAndRetry
	for n, i := range j.items {
		v := j.verdicts[n]
		if i.control != nil && i.control.told() {
			if p := i.pending; p != nil {
				i.pending = nil
				again = append(again, i)
				pause = *p
			}
			continue
		}
		if !v.given {
			v = verdict{given: true, doubt: true, failure: *messaging.NewFailure(messaging.CategoryProcessingTransient, messaging.CodeHandlerPanicked, "the handler's goroutine ended")}
		}
		if p, waits := k.judge(i, v); waits {
			again = append(again, i)
			pause.Delay, pause.Whole, pause.Operator = max(pause.Delay, p.Delay), pause.Whole || p.Whole, pause.Operator || p.Operator
		}
	}
	if len(again) > 0 {
		k.waitInPlace(j.l, again, pause)
	}
	k.wake(j.l)
	k.tidy(j.l)
	k.freeJob(j)
}

// judge acts on the verdict about one delivery. What the lane has to wait for is given back, for all of a call at once.
func (k *Consumer) judge(i *item, v verdict) (pause messaging.PauseAndRetry, waits bool) {
	if !i.early { // else it stands in the steps of its settlement
		k.step(i, Decoding)
	}
	switch {
	case i.u.gone, v.early:
		k.unsettled(i)
	case v.outcome != "":
		i.outcome = v.outcome
		k.finish(i)
	case v.result.Verdict() == messaging.VerdictSuccess:
		k.passed(i)
		k.stepsOfSuccess(i)
		i.outcome = outcomeSuccess
		k.finish(i)
	default:
		if v.decoded {
			if !v.free {
				k.passed(i)
			}
			k.step(i, Processing)
		}
		return k.decide(i, v)
	}
	return pause, false
}

// passed ends an outage: what the message needs before its handler was there.
func (k *Consumer) passed(i *item) {
	if i.outage > 0 {
		i.outage = 0
	}
	k.resume(i.u, reasonOutage)
}

func (k *Consumer) stepsOfSuccess(i *item) {
	k.step(i, Processing)
	if r := k.routes[routeKey{i.fields.Type, i.fields.SchemaVersion}]; r != nil && r.Inbox != "" {
		k.step(i, InboxReserved)
		k.step(i, BusinessTransactionCommitted)
	}
	k.step(i, HandlerSucceeded)
}

// decide asks what becomes of a failure, and does it.
func (k *Consumer) decide(i *item, v verdict) (pause messaging.PauseAndRetry, waits bool) {
	i.doubt = i.doubt || v.doubt
	f := v.failure
	decision := Decide(RetryContext{
		Policy: k.c.Policy, Caps: k.c.Caps, Ordered: k.c.strict(), AtMostOnce: k.c.Delivery == messaging.AtMostOnce, Block: k.c.Block,
		ReviewDoubtful: k.c.ReviewDoubtful, Meta: k.meta(i), Verdict: v.result.Verdict(), Failure: f, Wanted: v.wanted,
		SideEffectPossible: i.doubt, Free: v.free, Outage: i.outage, Draining: k.draining || i.u.leaving, Random: 1 - rand.Float64(),
	})
	if decision == nil {
		k.unsettled(i)
		return pause, false
	}
	if v.free {
		i.outage++
		if f.Code != messaging.CodeInboxBusy {
			k.pause(i.u, reasonOutage)
		}
	} else {
		k.noteFailure(i)
	}
	switch d := decision.(type) {
	case messaging.RetryInline:
		k.retry(i, f)
		k.closeItem(i)
		k.after(d.Delay, func() { k.putBack(i.l, []*item{i}) })
	case messaging.PauseAndRetry:
		k.step(i, RetryPending)
		if !v.free && !d.Operator {
			k.retry(i, f)
		}
		return d, true
	case messaging.PublishToRetryDestination:
		k.step(i, RetryPending)
		k.c.Hooks.retried(k.c.Policy.Mode, f)
		k.handOver(i, k.c.Stages[d.Stage-1], k.toStage(i, d.Delay), f, outcomeMoved)
	case messaging.ReturnToBroker:
		k.step(i, RetryPending)
		k.c.Hooks.retried(k.c.Policy.Mode, f)
		i.outcome = outcomeReturned
		k.send(i, transport.Settlement{Verb: transport.Fail, Delay: d.Delay})
	case messaging.Park:
		place, ok := k.c.Parking[d.Place]
		if !ok {
			return k.deadLetter(i, d.Failure)
		}
		if d.Place == messaging.ParkingSchema {
			k.step(i, SchemaParking)
		} else {
			k.step(i, DeadLetterPending)
		}
		k.handOver(i, place, k.toDeadLetters(i, d.Failure), d.Failure, outcomeParked)
	case messaging.DeadLetterDecision:
		return k.deadLetter(i, d.Failure)
	case messaging.RejectDecision:
		k.step(i, Rejected)
		i.outcome = outcomeRejected
		k.finish(i)
	}
	return pause, false
}

// deadLetter hands over to the dead-letter queue. Where there is none the message waits for somebody: it is never dropped.
func (k *Consumer) deadLetter(i *item, f messaging.Failure) (messaging.PauseAndRetry, bool) {
	if k.c.DeadLetters == nil {
		k.step(i, RetryPending)
		k.pause(i.u, reasonNoPlace)
		return messaging.PauseAndRetry{Operator: true}, true
	}
	k.step(i, DeadLetterPending)
	k.handOver(i, *k.c.DeadLetters, k.toDeadLetters(i, f), f, outcomeDeadLettered)
	return messaging.PauseAndRetry{}, false
}

// noteFailure keeps when a message failed first.
func (k *Consumer) noteFailure(i *item) {
	if i.first == "" {
		i.first = stamp(time.Now())
	}
}

// retry counts the next attempt.
func (k *Consumer) retry(i *item, f messaging.Failure) {
	if i.at != RetryPending {
		k.step(i, RetryPending)
	}
	i.attempt++
	k.c.Hooks.retried(k.c.Policy.Mode, f)
}

// waitInPlace lets a lane stand still until its heads are tried again.
func (k *Consumer) waitInPlace(l *lane, items []*item, p messaging.PauseAndRetry) {
	u := items[0].u
	switch {
	case p.Operator:
		for _, i := range items {
			i.attempt = 1 // whoever lifts the pause wants it tried anew
		}
		if _, stopped := u.pauses[reasonNoPlace]; !stopped {
			k.pause(u, reasonExhausted)
		}
		k.putBack(l, items)
		k.steer(u)
	case p.Whole:
		k.blocked++
		k.after(p.Delay, func() {
			k.blocked--
			k.putBack(l, items)
		})
	default:
		l.held++
		k.after(p.Delay, func() {
			k.putBack(l, items)
			k.letGo(l)
		})
	}
	for _, i := range items {
		k.closeItem(i)
	}
}

// putBack puts deliveries at the head of their lane again.
func (k *Consumer) putBack(l *lane, items []*item) {
	if items[0].u.leaving || k.draining {
		for _, i := range items {
			k.unsettled(i)
		}
		return
	}
	for _, i := range items {
		k.count(i)
		i.control = nil
	}
	l.queue.pushFront(items...)
	k.wake(l)
	k.steer(items[0].u)
}
