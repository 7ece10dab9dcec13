package relay

import (
	"time"

	"github.com/backend-skeleton/relay/messaging"
)

// Health is what the relay knows of itself; it asks nobody.
type Health struct {
	Draining bool
	// SincePoll is how long ago the last look for work finished.
	SincePoll    time.Duration
	Destinations []DestinationHealth
}

// DestinationHealth of one served destination.
type DestinationHealth struct {
	Name   messaging.DestinationName
	Broker string
	// Ready: rows may flow. Reason is a fixed word where they may not, Since when that began.
	Ready  bool
	Reason string
	Since  time.Time
	// State of the breaker that decides, the broker's or the destination's.
	State BreakerState
	// BrokerState and OwnState are those of the two.
	BrokerState, OwnState BreakerState
	// SlowStart is how many rows may be open after a recovery; 0 is any number.
	SlowStart int
	// Paused by someone, whatever the breakers say.
	Paused bool
	Lanes  int
}

// Health of every served destination now.
func (r *Relay) Health() Health {
	h := Health{Draining: r.draining.Load(), SincePoll: r.since() - time.Duration(r.polled.Load())}
	if !r.running.Load() {
		return h
	}
	away := r.database.now()
	for _, p := range r.pumps {
		d := DestinationHealth{Name: p.d.Name, Broker: p.broker.name, Ready: true, Lanes: r.registry.count(p.d.Name)}
		d.BrokerState, _, _ = p.broker.breaker.snapshot()
		d.OwnState, _, _ = p.breaker.snapshot()
		if d.SlowStart = p.broker.breaker.slow(); d.SlowStart == 0 || (p.breaker.slow() > 0 && p.breaker.slow() < d.SlowStart) {
			d.SlowStart = p.breaker.slow()
		}
		for _, b := range []*breaker{p.broker.breaker, p.breaker} {
			s, reason, since := b.snapshot()
			if since.After(d.Since) {
				d.Since = since
			}
			if s != BreakerClosed {
				d.Ready, d.State, d.Reason, d.Since = false, s, reason, since
				break
			}
		}
		if s := p.broker.silence.Load(); d.Ready && s != nil && s.since.After(p.broker.breaker.answeredAt()) {
			d.Ready, d.Reason, d.Since = false, s.reason, s.since
		}
		if pause := p.paused.Load(); pause != nil {
			d.Ready, d.Paused, d.Reason, d.Since = false, true, "PAUSED", pause.since
		}
		if away != nil { // nothing is published that cannot be claimed
			d.Ready, d.Reason, d.Since = false, away.reason, away.since
		}
		h.Destinations = append(h.Destinations, d)
	}
	return h
}
