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

// reserve takes the one row that half-open breakers allow.
func (p *pump) reserve(rows int) bool {
	if rows < 0 {
		return true
	}
	if !p.broker.breaker.reserve() {
		return false
	}
	if !p.breaker.reserve() {
		p.broker.breaker.release()
		return false
	}
	return true
}

func (p *pump) unreserve(rows int) {
	if rows > 0 {
		p.broker.breaker.release()
		p.breaker.release()
	}
}

// unused gives the one row back that half-open breakers allowed, if the claim found none to send.
func (p *pump) unused(rows int) {
	if len(p.ready) == 0 {
		p.unreserve(rows)
	}
}

// probe asks the broker something harmless before a row finds out the rest.
func (p *pump) probe(ctx context.Context, forBroker, forDestination bool) {
	if p.probing || (forBroker && !p.broker.breaker.reserve()) {
		return
	}
	if forDestination && !p.breaker.reserve() {
		if forBroker {
			p.broker.breaker.release()
		}
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
				use bool
			}{{p.broker.breaker, forBroker}, {p.breaker, forDestination}} {
				switch {
				case !b.use:
				case reason == "":
					b.of.answered()
				default:
					b.of.open(reason)
				}
			}
		})
	})
}
