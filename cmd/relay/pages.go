package main

import (
	"context"
	"time"

	"github.com/backend-skeleton/relay/internal/actuator"
	"github.com/backend-skeleton/relay/internal/outbox"
	relaying "github.com/backend-skeleton/relay/internal/relay"
	"github.com/backend-skeleton/relay/messaging"
)

// health answers the actuator from the relay's own knowledge.
type health struct {
	relay  *relaying.Relay
	served []messaging.DestinationName
	born   time.Time
}

// Health tells how the relay fares. Until it runs, while a broker's proof is waited for, every destination says so.
func (h health) Health() actuator.Health {
	now := h.relay.Health()
	out := actuator.Health{Draining: now.Draining, LastCycle: time.Now().Add(-now.SincePoll)}
	for _, d := range now.Destinations {
		out.Destinations = append(out.Destinations, actuator.DestinationHealth{
			Name: d.Name, Ready: d.Ready, Reason: d.Reason, Since: d.Since, BreakerOpen: d.State != relaying.BreakerClosed,
			BrokerBreaker: d.BrokerState.String(), OwnBreaker: d.OwnState.String(), SlowStart: d.SlowStart,
		})
	}
	if len(now.Destinations) == 0 && !now.Draining {
		for _, name := range h.served {
			out.Destinations = append(out.Destinations, actuator.DestinationHealth{Name: name, Reason: "STARTING", Since: h.born})
		}
	}
	return out
}

// stats answers the actuator from the table.
type stats struct{ store *outbox.Store }

// OutboxStats counts the outbox.
func (s stats) OutboxStats(ctx context.Context) (actuator.Stats, error) {
	now, err := s.store.Stats(ctx)
	if err != nil {
		return actuator.Stats{}, err
	}
	out := actuator.Stats{AsOf: now.AsOf}
	for _, d := range now.Destinations {
		out.Destinations = append(out.Destinations, actuator.DestinationStats{
			Name: messaging.DestinationName(d.Destination), Leased: d.Leased, Oldest: d.Oldest, Served: d.Served, Paused: d.Paused, Lanes: d.Lanes,
			Pending: d.Rows[outbox.Pending], Scheduled: d.Rows[outbox.Scheduled], RetryableFailure: d.Rows[outbox.RetryableFailure],
			Ambiguous: d.Rows[outbox.Ambiguous], Held: d.Rows[outbox.Held], Published: d.Rows[outbox.Published], Parked: d.Rows[outbox.Parked],
		})
	}
	return out, nil
}

// storage answers the actuator from catalogs and statistics.
type storage struct {
	store *outbox.Store
	keep  time.Duration
}

// Storage tells what the tables take.
func (s storage) Storage(ctx context.Context) (actuator.Storage, error) {
	now, err := s.store.Storage(ctx, s.keep)
	if err != nil {
		return actuator.Storage{}, err
	}
	out := actuator.Storage{
		AsOf: now.AsOf, SessionsVisible: now.SessionsVisible, Keep: s.keep, Overdue: now.Backlog.Overdue, BacklogRows: now.Backlog.Rows,
		BacklogMore: now.Backlog.More,
	}
	for _, t := range now.Tables {
		out.Tables = append(out.Tables, actuator.TableStorage{
			Name: t.Name, Partitions: t.Partitions, TableBytes: t.TableBytes, IndexBytes: t.IndexBytes, LiveRows: t.Live, DeadRows: t.Dead,
			LastVacuum: t.LastVacuum, LastAutovacuum: t.LastAutovacuum,
		})
	}
	for _, h := range now.Snapshots {
		out.Snapshots = append(out.Snapshots, actuator.Snapshot{Kind: h.Kind, Holder: h.Holder, Age: h.Age, Transactions: h.Transactions})
	}
	return out, nil
}
