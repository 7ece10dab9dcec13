package kafka

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/backend-skeleton/relay/messaging"
)

// maxRenewals is how often one batch asks for a new producer session.
const maxRenewals = 2

// maxDamaged is how often a batch whose checksum did not match is sent again.
const maxDamaged = 2

// attempt brings one batch to an outcome: it writes it, and writes it again, until
// the broker's answer is known, a refusal is proved, or the time is over.
type attempt struct {
	p     *partition
	items []*item
	set   settings // the first item's: its timeouts bound the batch

	deliverBy time.Time // no write begins later
	until     time.Time // nothing is waited for later

	unsure   bool // a write may have been stored, its answer is not known
	writes   int
	answered bool   // some broker answered a write
	why      *cause // the last thing that kept it from being stored
	renewals int
	apart    time.Time // when its leader could not be reached first
	damaged  int
	failures int
	batch    []byte // nil: to be encoded
}

// outcome is what became of a batch; split > 0 asks for its items in two pieces.
type outcome struct {
	items  []*item
	stored bool
	offset int64
	writes int
	split  int
	result messaging.PublishResult
}

func newAttempt(p *partition, items []*item) *attempt {
	first := items[0].call
	for _, it := range items {
		if it.call.started.Before(first.started) {
			first = it.call
		}
	}
	return &attempt{
		p: p, items: items, set: first.settings,
		deliverBy: first.started.Add(first.settings.delivery),
		until:     first.started.Add(first.settings.abandon),
	}
}

// run goes on until there is an outcome. The items may become fewer on the way.
func (a *attempt) run() outcome {
	for {
		if a.thin(); len(a.items) == 0 {
			return outcome{}
		}
		if a.unsure && (!time.Now().Before(a.deliverBy) || a.p.pub.ctx.Err() != nil) {
			return a.abandon(a.why)
		}
		r, part := a.try()
		if o, ended := a.follow(r, part); ended {
			return o
		}
	}
}

// follow does what a ruling asks for; ended tells whether that is the outcome.
func (a *attempt) follow(r ruling, part kmsg.ProduceResponseTopicPartition) (o outcome, ended bool) {
	if r.cause != nil && (r.cause != causeNotSent || a.why == nil) { // a cause says more than that the time was over
		a.why = r.cause
	}
	switch r.step {
	case stepStored:
		a.p.at.advance(len(a.items))
		return outcome{items: a.items, stored: true, offset: part.BaseOffset, writes: a.writes}, true
	case stepRefuse:
		return a.refuse(r.cause), true
	case stepGiveUp:
		return a.abandon(r.cause), true
	case stepSplit:
		return a.split(r.cause, part), true
	case stepRenew:
		if a.renewals++; a.renewals > maxRenewals {
			return a.refuse(causeSessionLost), true
		}
		a.p.leaveSession()
		a.batch = nil
		return outcome{}, false
	case stepUnsure:
		a.unsure = true
	case stepAgain:
		a.batch = nil // nothing of it is stored: it may change
		if r.cause == causeRecord {
			if a.damaged++; a.damaged > maxDamaged {
				return a.split(r.cause, part), true
			}
		}
		if f := a.p.topic.final(); f != nil && r.cause == causeNoTopic {
			return a.refuse(f), true
		}
	}
	a.failures++
	a.p.topic.refresh() // the leader may be another by now
	patience, done := a.patience()
	pause(patience, backoff(a.failures))
	done()
	return outcome{}, false
}

// try writes the batch once, if there is a session and a leader to write it to.
func (a *attempt) try() (ruling, kmsg.ProduceResponseTopicPartition) {
	var none kmsg.ProduceResponseTopicPartition
	patience, done := a.patience()
	defer done()
	p := a.p
	if p.at.id == noProducer {
		at, c := p.pub.session.start(patience, p.refused)
		if c != nil {
			return a.trouble(unasked(c, a.unsure)), none
		}
		p.at = at
	}
	node, c := p.topic.leader(p.number)
	if c != nil {
		return a.trouble(unasked(c, a.unsure)), none
	}
	if a.batch == nil {
		a.batch = p.encode(a.items)
	}
	ans := p.pub.sender(node, a.set.request).send(&shot{
		topic: p.topic.name, partition: p.number, batch: a.batch, patience: patience, until: a.until,
	})
	if ans.begun {
		a.writes++
	}
	if ans.err == nil {
		a.answered = true
	}
	return a.trouble(judge(ans, a.unsure)), ans.part
}

// trouble shows what is queued behind this batch why the leader cannot be reached,
// and tells a leader that is gone from a cluster that is.
func (a *attempt) trouble(r ruling) ruling {
	if r.cause == causeUnreachable {
		if a.apart.IsZero() {
			a.apart = time.Now()
		} else if a.p.topic.answeredSince(a.apart) {
			r.cause = causeLeaderGone
		}
		a.p.trouble.Store(r.cause)
	} else if r.cause != nil || r.step == stepStored {
		a.p.trouble.Store(nil)
	}
	return r
}

// patience ends when another write should not begin: with the last of the calls, or
// for a batch in doubt with the delivery timeout.
func (a *attempt) patience() (context.Context, func()) {
	if a.unsure {
		ctx, cancel := context.WithDeadline(a.p.pub.ctx, a.deliverBy)
		return ctx, cancel
	}
	ctx, cancel := context.WithCancel(a.p.pub.ctx)
	var calls []*call
	for _, it := range a.items {
		if len(calls) == 0 || calls[len(calls)-1] != it.call {
			calls = append(calls, it.call)
		}
	}
	var left atomic.Int32
	left.Store(int32(len(calls)))
	stops := make([]func() bool, len(calls))
	for i, c := range calls {
		stops[i] = context.AfterFunc(c.ctx, func() {
			if left.Add(-1) == 0 {
				cancel()
			}
		})
	}
	return ctx, func() {
		for _, stop := range stops {
			stop()
		}
		cancel()
	}
}

// thin rejects the items whose call is over, while nothing of the batch can be
// stored. A batch in doubt is left as it is: only as it was does the broker know it.
func (a *attempt) thin() {
	if a.unsure {
		return
	}
	closing := a.p.pub.ctx.Err() != nil
	kept := 0
	for _, it := range a.items {
		if !closing && it.call.ctx.Err() == nil {
			a.items[kept] = it
			kept++
			continue
		}
		why := a.why
		if why == nil || closing {
			why = a.p.pub.untimely()
		}
		a.p.end(it, rejection(why, a.answered, a.writes))
	}
	if kept < len(a.items) {
		a.items, a.batch = a.items[:kept], nil
	}
}

// refuse ends the batch as known not to be stored.
func (a *attempt) refuse(why *cause) outcome {
	return outcome{items: a.items, result: rejection(why, a.answered, a.writes)}
}

// abandon ends the batch as not to be told, and fences it off, so that it cannot
// come up behind what is published later.
func (a *attempt) abandon(why *cause) outcome {
	if why == nil {
		why = causeNoConfirm
	}
	if !a.p.at.fence() {
		a.p.leaveSession()
	}
	a.p.pub.adapter.log.Warn("messages left ambiguous", "topic", a.p.topic.name, "partition", a.p.number, "messages", len(a.items), "code", why.code)
	return outcome{items: a.items, result: doubt(why, a.answered, a.writes)}
}

// split asks for two pieces, or refuses a single record. A broker that names a record
// is believed only as far as where to cut: the verdict comes from trying it alone.
func (a *attempt) split(why *cause, part kmsg.ProduceResponseTopicPartition) outcome {
	n := len(a.items)
	if n == 1 {
		if why == causeTooMuch {
			why = tooLargeCause(len(a.batch), a.p.topic.maxMessage())
		}
		return a.refuse(why)
	}
	at := n / 2
	if why == causeTooMuch {
		a.p.topic.tooLarge(len(a.batch))
	} else if len(part.ErrorRecords) > 0 {
		named := int(part.ErrorRecords[0].RelativeOffset)
		for _, e := range part.ErrorRecords[1:] {
			named = min(named, int(e.RelativeOffset))
		}
		at = min(max(named, 1), n-1)
	}
	return outcome{items: a.items, split: at}
}
