package relay

import (
	"context"
	"time"

	"github.com/backend-skeleton/relay/internal/outbox"
	"github.com/backend-skeleton/relay/messaging"
)

// blockedPause is how long a blocked destination is left alone after a look for rows that have waited too long.
const blockedPause = time.Second

// blockage is why a destination is blocked for a reason that only an operator mends; nil for any other.
func blockage(reason string) *messaging.Failure {
	switch reason {
	case messaging.CodeNotAuthorized:
		return messaging.NewFailure(messaging.CategoryAuthorization, reason, "")
	case messaging.CodeUnknownTopic, messaging.CodeUnknownExchange, messaging.CodeBrokerConfiguration:
		return messaging.NewFailure(messaging.CategoryConfiguration, reason, "")
	default:
		return nil
	}
}

// parkBlocked parks rows of a destination that has been blocked for longer than its file allows. Nothing of it may be on
// its way.
func (p *pump) parkBlocked(ctx context.Context, now time.Time) bool {
	if p.d.BlockedFor <= 0 || len(p.flights) > 0 || p.calls > 0 || now.Before(p.blockedAt) {
		return false
	}
	state, reason, since := p.breaker.snapshot()
	why := blockage(reason)
	if state == BreakerClosed || why == nil || time.Since(since) <= p.d.BlockedFor {
		return false
	}
	var numbers []int32
	var epochs []int64
	for _, l := range p.lanes {
		if l.ready && !l.gone {
			numbers, epochs = append(numbers, l.lease.Lane), append(epochs, l.lease.Epoch)
		}
	}
	p.blockedAt = now.Add(blockedPause)
	if len(numbers) == 0 {
		return false
	}
	parked, err := p.r.c.Store.ParkBlocked(ctx, numbers, epochs, p.d.BlockedFor, !p.d.Block, why)
	if err != nil {
		p.trouble("park blocked rows", err)
		return false
	}
	p.fine()
	if parked == 0 {
		return false
	}
	p.blockedAt = now // there may be more
	p.r.c.Hooks.Recorded(p.d.Name, messaging.Rejected, why, string(outbox.Parked), parked)
	return true
}
