package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/backend-skeleton/relay/internal/actuator"
	"github.com/backend-skeleton/relay/internal/cli"
	"github.com/backend-skeleton/relay/internal/config"
	"github.com/backend-skeleton/relay/internal/observe"
	"github.com/backend-skeleton/relay/internal/outbox"
	engine "github.com/backend-skeleton/relay/internal/relay"
	"github.com/backend-skeleton/relay/messaging"
)

// newObserver counts and logs for every destination of the file, on a registry that also shows the process itself.
func newObserver(c *config.Config, log *slog.Logger) (*observe.Observer, error) {
	destinations := make(map[messaging.DestinationName]string, len(c.Messaging.Destinations))
	for name, d := range c.Messaging.Destinations {
		destinations[messaging.DestinationName(name)] = d.Broker
	}
	registry := prometheus.NewRegistry()
	err := errors.Join(registry.Register(collectors.NewGoCollector()), registry.Register(collectors.NewProcessCollector(collectors.ProcessCollectorOpts{})))
	if err != nil {
		return nil, err
	}
	return observe.New(observe.Config{Registry: registry, Logger: log, Destinations: destinations, Version: build().Version})
}

// hooks tell the observer what the relay does.
func hooks(o *observe.Observer) engine.Hooks {
	return engine.Hooks{
		Recorded:      o.Recorded,
		Published:     o.Published,
		InFlight:      o.InFlight,
		LostLease:     o.LostLease,
		LateConfirmed: o.LateConfirmed,
		LateAnswer:    o.LateAnswer,
		TakenOver:     o.TakenOver,
		Weak:          o.Weak,
		Breaker: func(broker string, d messaging.DestinationName, s engine.BreakerState, reason string) {
			o.Breaker(broker, d, s.String(), reason)
		},
		Unknown: o.Unknown,
		Pruned:  o.Pruned,
		Trouble: o.Trouble,
	}
}

// listenHTTP takes the actuator's address; that it is taken already is found out before anything is published.
func listenHTTP(ctx context.Context, c *config.Config) (net.Listener, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", c.HTTP.Listen)
	if err != nil {
		return nil, cli.Fail(cli.Refused, "http.listen: %w", err)
	}
	return l, nil
}

// serveHTTP answers on l until ctx ends.
func serveHTTP(ctx context.Context, l net.Listener, o *observe.Observer, s *outbox.Store, r *engine.Relay, log *slog.Logger) error {
	h, err := actuator.New(actuator.Config{Stats: statsPort{s}, Health: healthPort{r}, Observer: o, Version: build().Version})
	if err != nil {
		return errors.Join(fmt.Errorf("actuator: %w", err), l.Close())
	}
	return actuator.Serve(ctx, l, h, log)
}

// statsPort shows the store to the actuator.
type statsPort struct{ store *outbox.Store }

// OutboxStats translates word by word.
func (p statsPort) OutboxStats(ctx context.Context) (actuator.Stats, error) {
	stats, err := p.store.Stats(ctx)
	if err != nil {
		return actuator.Stats{}, err
	}
	out := actuator.Stats{AsOf: stats.AsOf}
	for _, d := range stats.Destinations {
		out.Destinations = append(out.Destinations, actuator.DestinationStats{
			Name:    messaging.DestinationName(d.Destination),
			Pending: d.Rows[outbox.Pending], Scheduled: d.Rows[outbox.Scheduled], RetryableFailure: d.Rows[outbox.RetryableFailure],
			Ambiguous: d.Rows[outbox.Ambiguous], Held: d.Rows[outbox.Held], Published: d.Rows[outbox.Published], Parked: d.Rows[outbox.Parked],
			Leased: d.Leased, Oldest: d.Oldest, Served: d.Served, Lanes: d.Lanes,
		})
	}
	return out, nil
}

// healthPort shows the relay to the actuator.
type healthPort struct{ relay *engine.Relay }

// Health translates word by word.
func (p healthPort) Health() actuator.Health {
	h := p.relay.Health()
	out := actuator.Health{Draining: h.Draining, LastCycle: time.Now().Add(-h.SincePoll)}
	for _, d := range h.Destinations {
		out.Destinations = append(out.Destinations, actuator.DestinationHealth{Name: d.Name, Ready: d.Ready, Reason: d.Reason, Since: d.Since})
	}
	return out
}
