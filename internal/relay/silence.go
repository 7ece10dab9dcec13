package relay

import (
	"context"
	"time"

	"github.com/backend-skeleton/relay/messaging"
	"github.com/backend-skeleton/relay/messaging/transport"
)

// idleProbeTime is how long a broker may take to answer when it is asked while nothing is to be sent.
const idleProbeTime = 5 * time.Second

// silence is why a broker that has nothing to do is not ready, and since when.
type silence struct {
	reason string
	since  time.Time
}

// watch asks an idle broker something harmless now and then. Only readiness learns of it: no row is claimed, no breaker
// changes, and what a row finds out counts for more.
func (r *Relay) watch(ctx context.Context, b *broker) {
	if r.c.IdleProbe < 0 {
		return
	}
	every := time.NewTicker(r.c.IdleProbe)
	defer every.Stop()
	for n := 0; ; n++ {
		select {
		case <-ctx.Done():
			return
		case <-every.C:
		}
		if state, _, _ := b.breaker.snapshot(); state != BreakerClosed || time.Since(b.breaker.answeredAt()) < r.c.IdleProbe {
			b.silence.Store(nil) // rows find out
			continue
		}
		b.ask(ctx, b.endpoints[n%len(b.endpoints)])
	}
}

// ask one of the broker's destinations in turn. What is wrong with that destination alone is left to its rows.
func (b *broker) ask(ctx context.Context, about transport.Endpoint) {
	limited, cancel := context.WithTimeout(ctx, idleProbeTime)
	defer cancel()
	reason := probeReason(b.adapter.Inspect(limited, []transport.Endpoint{about}))
	switch {
	case ctx.Err() != nil:
	case reason != messaging.CodeBrokerUnreachable && reason != messaging.CodeAuthenticationFailed:
		b.silence.Store(nil)
	default:
		since := time.Now()
		if before := b.silence.Load(); before != nil {
			since = before.since
		}
		b.silence.Store(&silence{reason: reason, since: since})
	}
}
