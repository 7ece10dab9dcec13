package relay

import (
	"time"

	"github.com/backend-skeleton/relay/internal/publish"
	"github.com/backend-skeleton/relay/messaging"
	"github.com/backend-skeleton/relay/messaging/transport"
)

// send hands the rows that may go now to the adapter, in one call.
func (p *pump) send() {
	ready := p.ready
	p.ready = nil
	if p.draining {
		p.drop(ready)
		return
	}
	deadline := p.sendBy()
	sent := make([]*flight, 0, len(ready))
	messages := make([]transport.Message, 0, len(ready))
	broken := map[*key]bool{}
	bytes := int64(0)
	for _, f := range ready {
		switch {
		case f.lane.gone || !f.lane.validUntil(deadline): // it could be on its way when the lease ends
			p.refuseUnsent(f, messaging.NewFailure(messaging.CategoryTransientInfrastructure, messaging.CodeLeaseEnded, "the lease ends too soon"))
			broken[f.key] = true
			continue
		case f.key != nil && broken[f.key]:
			p.refuseUnsent(f, behind())
			continue
		}
		m, failure := p.render(f)
		if failure != nil {
			p.refuseUnsent(f, failure)
			broken[f.key] = p.d.Block
			continue
		}
		f.sent, f.onWire = true, int64(len(m.Value))
		bytes += f.onWire
		if f.key != nil {
			f.key.going = true
		}
		sent, messages = append(sent, f), append(messages, m)
	}
	if len(sent) == 0 {
		return
	}
	p.broker.buffer(bytes)
	p.calls++
	p.wg.Go(func() {
		publish.Do(p.r.publishing, p.broker.publisher, publish.Call{
			To: p.d.Endpoint, Messages: messages, Timeout: p.d.Timeout,
			Verdict: func(i int, r messaging.PublishResult) { p.box.answer(answer{f: sent[i], r: r, kind: verdict}) },
			Resolved: func(i int, r messaging.PublishResult, after bool) {
				kind := resolved
				if after {
					kind = late
				}
				p.box.answer(answer{f: sent[i], r: r, kind: kind})
			},
		})
		p.box.post(func() { p.calls-- })
	})
}

// sendBy is until when a lease must be valid for a publish that begins now: its verdict must be in by then.
func (p *pump) sendBy() time.Duration { return p.r.since() + p.d.Timeout + publish.Grace }

func (p *pump) render(f *flight) (transport.Message, *messaging.Failure) {
	if failure := p.d.refuse(f.row); failure != nil {
		return transport.Message{}, failure
	}
	return message(f.row)
}

func behind() *messaging.Failure {
	return messaging.NewFailure(messaging.CategoryTransientInfrastructure, messaging.CodePredecessorNotStored, "an earlier row of the key was not sent")
}

// refuseUnsent gives a row its verdict without sending it.
func (p *pump) refuseUnsent(f *flight, failure *messaging.Failure) {
	f.resolved = true
	p.onVerdict(f, notSent(failure))
}

// dropUnsent lets go of everything that was claimed and not sent: it stays as it was.
func (p *pump) dropUnsent() {
	p.drop(p.ready)
	p.ready = nil
	for _, l := range p.lanes {
		for _, k := range l.keys {
			queue := k.queue
			k.queue = nil
			p.drop(queue)
		}
	}
}

// drained tells whether nothing is on its way any more. A row that the adapter has not resolved does not count: its
// outcome is recorded, and closing the publisher ends it.
func (p *pump) drained() bool {
	return len(p.flights) == 0 && len(p.holds) == 0 && p.calls == 0
}
