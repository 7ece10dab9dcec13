package relay

import (
	"context"
	"time"

	"github.com/backend-skeleton/relay/messaging/transport"
)

// allowed says how many rows the breakers let through: any number (negative), one, or none for a while.
func (p *pump) allowed(ctx context.Context, now time.Time) (rows int, wait time.Duration) {
	if p.paused.Load() != nil {
		return 0, p.r.c.Poll
	}
	b, d := p.broker.breaker.permit(now), p.breaker.permit(now)
	switch {
	case b.wait > 0 || d.wait > 0:
		return 0, max(b.wait, d.wait)
	case b.probe || d.probe:
		p.probe(ctx, b.probe, d.probe)
		return 0, p.r.c.Breaker.OpenFor
	case b.rows < 0 && d.rows < 0:
		return -1, 0
	case p.calls > 0: // rows that were on their way when it opened
		return 0, p.r.c.Breaker.OpenFor
	default:
		return 1, 0
	}
}

// pauseReason is why and since when someone paused a destination.
type pauseReason struct {
	text  string
	since time.Time
}

// pauseFor pauses the destination, or lets it go on. What is on its way is finished.
func (p *pump) pauseFor(reason string, stop bool) {
	switch now := p.paused.Load(); {
	case stop && now == nil:
		p.paused.Store(&pauseReason{text: reason, since: time.Now()})
	case !stop && now != nil:
		p.paused.Store(nil)
		p.box.wake()
	}
}

// tickets of the broker's and the destination's breaker; a closed one asks for none.
type tickets struct{ broker, own ticket }

// reserve takes the one row that half-open breakers allow.
func (p *pump) reserve(rows int) bool {
	if rows < 0 {
		return true
	}
	broker, ok := p.broker.breaker.reserve()
	if !ok {
		return false
	}
	own, ok := p.breaker.reserve()
	if !ok {
		p.broker.breaker.release(broker)
		return false
	}
	p.tickets = tickets{broker, own}
	return true
}

// giveTickets gives back what is left of a reservation.
func (p *pump) giveTickets(t *tickets) {
	if *t == (tickets{}) {
		return
	}
	p.broker.breaker.release(t.broker)
	p.breaker.release(t.own)
	*t = tickets{}
}

// unused gives the one row back that half-open breakers allowed, if the claim found none to send; otherwise that row has it.
func (p *pump) unused(rows int) {
	switch {
	case rows < 0:
	case len(p.ready) == 0:
		p.giveTickets(&p.tickets)
	default:
		p.ready[0].tickets, p.tickets = p.tickets, tickets{}
	}
}

// probe asks the broker something harmless before a row finds out the rest.
func (p *pump) probe(ctx context.Context, forBroker, forDestination bool) {
	if p.probing {
		return
	}
	var t tickets
	ok := true
	if forBroker {
		t.broker, ok = p.broker.breaker.reserve()
	}
	if ok && forDestination {
		t.own, ok = p.breaker.reserve()
	}
	if !ok {
		p.giveTickets(&t)
		return
	}
	p.probing = true
	p.wg.Go(func() {
		limited, cancel := context.WithTimeout(ctx, max(p.d.Timeout, time.Second))
		defer cancel()
		reason := probeReason(p.broker.adapter.Inspect(limited, []transport.Endpoint{p.d.Endpoint}))
		p.box.post(func() {
			p.probing = false
			for _, b := range []struct {
				of  *breaker
				t   ticket
				use bool
			}{{p.broker.breaker, t.broker, forBroker}, {p.breaker, t.own, forDestination}} {
				switch {
				case !b.use:
				case reason == "":
					b.of.answered(b.t)
				default:
					b.of.open(reason, b.t)
				}
			}
		})
	})
}
