package main

import (
	"errors"

	edges "github.com/backend-skeleton/relay/internal/brokers"
	"github.com/backend-skeleton/relay/internal/cli"
	"github.com/backend-skeleton/relay/internal/config"
	"github.com/backend-skeleton/relay/internal/observe"
	"github.com/backend-skeleton/relay/internal/outbox"
	relaying "github.com/backend-skeleton/relay/internal/relay"
	"github.com/backend-skeleton/relay/messaging"
)

// relayConfig translates the file's words into the relay's.
func relayConfig(c *config.Config, bs brokers, store *outbox.Store) (relaying.Config, error) {
	r := c.Relay
	out := relaying.Config{
		Store: store, Brokers: map[string]relaying.Broker{}, Known: c.Registered(),
		Lease: r.Lease.Std(), Poll: r.Poll.Std(), Batch: r.Batch, UnknownGrace: r.UnknownDestinationGrace.Std(),
		Retention: relaying.Retention{
			Published: outbox.Retention{Keep: r.Retention.Published.Std(), Archive: r.Retention.Archive, Batch: r.Retention.Batch},
			Archived:  r.Retention.Archived.Std(), Share: r.Retention.Share,
		},
		Drain: r.Drain.Std(),
		Breaker: relaying.BreakerConfig{
			Failures: r.Breaker.Failures, OpenFor: r.Breaker.OpenFor.Std(), OpenMax: r.Breaker.OpenMax.Std(), SlowStart: r.Breaker.SlowStart,
		},
	}
	for name, adapter := range bs {
		out.Brokers[name] = relaying.Broker{Adapter: adapter, InFlight: c.ProducerInFlight()}
	}
	for _, d := range c.Served() {
		dest, err := destination(d)
		if err != nil {
			return out, err
		}
		out.Destinations = append(out.Destinations, dest)
	}
	return out, nil
}

func destination(d config.Served) (relaying.Destination, error) {
	e, err := edges.Endpoint(d)
	if err != nil {
		return relaying.Destination{}, err
	}
	level, err := messaging.ParseConfirmationLevel(string(d.Confirmation))
	if err != nil {
		return relaying.Destination{}, err
	}
	return relaying.Destination{
		Name: e.Name, Broker: d.Broker, Endpoint: e,
		Ordered: d.Ordering == config.OrderingKey, Block: d.HeadPolicy == config.Block, Keyless: d.Keyless == config.AllowKeyless,
		OwnRoutingKey: d.Physical["routing-key-from"] != "",
		Attempts:      d.Attempts,
		Backoff: relaying.Backoff{
			Initial: d.Backoff.Initial.Std(), Max: d.Backoff.Max.Std(), Multiplier: d.Backoff.Multiplier,
			NoJitter: d.Backoff.Jitter == config.JitterNone,
		},
		Timeout: d.Timeout, Confirmation: level, MaxBytes: d.MaxBytes, Types: types(d.Types), BlockedFor: d.BlockedFor,
	}, nil
}

// types are the catalogue's; nil for a file without one.
func types(catalogue map[string]config.CatalogueType) map[messaging.MessageType]bool {
	if len(catalogue) == 0 {
		return nil
	}
	out := make(map[messaging.MessageType]bool, len(catalogue))
	for name := range catalogue {
		out[messaging.MessageType(name)] = true
	}
	return out
}

// hooks tell the observer what the relay does.
func hooks(o *observe.Observer) relaying.Hooks {
	return relaying.Hooks{
		Recorded: o.Recorded, Published: o.Published, InFlight: o.InFlight, Buffered: o.Buffered, LostLease: o.LostLease, LateCommit: o.LateCommit,
		Overtook:      o.Overtook,
		LateConfirmed: o.LateConfirmed, LateAnswer: o.LateAnswer, TakenOver: o.TakenOver, Weak: o.Weak,
		Breaker: func(broker string, d messaging.DestinationName, s relaying.BreakerState, reason string) {
			o.Breaker(broker, d, s.String(), reason)
		},
		SlowStart: o.SlowStart, Unknown: o.Unknown, Pruned: o.Pruned,
		Trouble: func(operation string, err error) {
			if !errors.Is(err, cli.ErrAskedLately) { // whoever asked has told it
				o.Trouble(operation, err)
			}
		},
	}
}
