package relay

import (
	"context"
	"slices"
	"time"

	"github.com/backend-skeleton/relay/internal/outbox"
)

// A row that kills its relay takes the windows of its neighbours with it. After every crash a lane's windows shrink;
// once they are down to one row, the lane goes solo: its row is alone on the wire, of the whole process, so that if the
// relay dies again there is no doubt which row was with it. Lanes take turns. One window that ends well, and the lane
// is trusted again.

// soloPause is how long a pump waits for the others to come to rest.
const soloPause = 10 * time.Millisecond

// suspect tells a lane whose rows go out solo.
func (p *pump) suspect(l *lane) bool { return l.lease.Crashes > 0 && l.limit(p.r.c.Batch) == 1 }

// turn says what this pump may claim now: of all lanes that are not suspect, of one suspect lane alone, or nothing.
func (p *pump) turn(ctx context.Context, now time.Time) (claim bool, only *lane) {
	holder := p.r.solo.Load()
	if holder == nil || holder == p {
		p.clean.Store(false) // before the holder is asked for again: whoever holds it then sees that this pump is at work
		holder = p.r.solo.Load()
	}
	if holder != nil && holder != p {
		p.clean.Store(p.rest(ctx))
		p.wakeBy(now.Add(soloPause))
		return false, nil
	}
	l := p.soloLane(now)
	switch {
	case holder == p && len(p.flights) == 0 && (l == nil || !p.calm()): // the others do not wait until it may go on
		p.rest(ctx)
		p.endSolo()
	case holder == p:
		if !p.rest(ctx) || !p.r.othersRest(p) {
			p.wakeBy(now.Add(soloPause))
			return false, nil
		}
		return true, l
	case l != nil && p.calm():
		if p.r.solo.CompareAndSwap(nil, p) {
			p.r.wakeAll()
		}
		p.wakeBy(now.Add(soloPause))
		return false, nil
	}
	return true, nil
}

// rest closes the windows of lanes with nothing open, and tells whether nothing of this pump is on the wire.
func (p *pump) rest(ctx context.Context) bool {
	return p.cleanLanes(ctx, func(*lane) bool { return true }) && len(p.flights) == 0 && p.calls == 0
}

// cleanLanes closes windows that ended well.
func (p *pump) cleanLanes(ctx context.Context, which func(*lane) bool) bool {
	var lanes []*lane
	var steps []outbox.Step
	for _, l := range p.lanes {
		if l.ready && l.window && l.open == 0 && which(l) {
			lanes, steps = append(lanes, l), append(steps, l.step())
		}
	}
	if len(lanes) == 0 {
		return true
	}
	unchanged, err := p.r.c.Store.Clean(ctx, steps)
	if err != nil {
		p.trouble("clean lanes", err)
		return false
	}
	for _, l := range lanes {
		l.window, l.lease.Crashes = false, 0
	}
	for _, u := range unchanged { // whatever stands there, this lease does not know it
		p.r.odd("clean lanes", u)
		p.remove(lanes[slices.IndexFunc(lanes, func(l *lane) bool { return l.lease.Lane == u.Lane })])
	}
	return true
}

// crashed tells lanes that are not trusted.
func crashed(l *lane) bool { return l.lease.Crashes > 0 }

// soloLane is the next suspect lane with rows to send.
func (p *pump) soloLane(now time.Time) *lane {
	by := p.sendBy()
	for i := range p.lanes {
		l := p.lanes[(p.next+i)%len(p.lanes)]
		if p.suspect(l) && l.validUntil(by) && (l.readable(now) || (l.ready && !l.leaving && (p.due[l] || l.lookable(now)))) {
			return l
		}
	}
	return nil
}

func (l *lane) lookable(now time.Time) bool {
	for _, k := range l.keys {
		if k.lookable(now) {
			return true
		}
	}
	return false
}

// calm tells that nothing speaks against the broker or the destination: a row is suspected of a crash only where
// everything else works.
func (p *pump) calm() bool {
	return p.paused.Load() == nil && p.breaker.calm() && p.broker.breaker.calm()
}

func (p *pump) endSolo() {
	if p.r.solo.CompareAndSwap(p, nil) {
		p.r.wakeAll()
	}
}

// mayClaim tells whether a lane takes part in this pump's claims now.
func (p *pump) mayClaim(l *lane, only *lane) bool {
	if only != nil {
		return l == only
	}
	return !p.suspect(l)
}

// othersRest tells whether no other pump has anything on the wire.
func (r *Relay) othersRest(holder *pump) bool {
	for _, p := range r.pumps {
		if p != holder && !p.clean.Load() {
			return false
		}
	}
	return true
}

func (r *Relay) wakeAll() {
	for _, p := range r.pumps {
		p.box.wake()
	}
}
