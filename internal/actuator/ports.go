package actuator

import (
	"context"
	"time"

	"github.com/backend-skeleton/relay/messaging"
)

// StatsReader reads what the outbox holds. It is called by one request at a time,
// with a deadline, and its answer serves every request of the next second.
type StatsReader interface {
	OutboxStats(ctx context.Context) (Stats, error)
}

// HealthReader tells how this relay fares, from memory: it is asked by every
// probe and must not touch the database.
type HealthReader interface {
	Health() Health
}

// Stats is what the outbox held at one moment.
type Stats struct {
	// AsOf is the moment, by the database clock.
	AsOf         time.Time
	Destinations []DestinationStats
}

// DestinationStats is what the outbox holds for one destination. An empty Name
// stands for the rows of all destinations that no relay's file names.
type DestinationStats struct {
	Name messaging.DestinationName
	// Counts of rows by their stored status. Published may be an estimate where the
	// table is large.
	Pending, Scheduled, RetryableFailure, Ambiguous, Held, Published, Parked int64
	// Leased counts rows in the window of a live relay: they may be on the wire.
	Leased int64
	// Oldest is the age of the oldest row that may be published now, 0 for none.
	Oldest time.Duration
	// Served tells that a live relay serves the destination.
	Served bool
	// Paused is the reason of a pause by an operator, empty for none.
	Paused string
	// Lanes by status.
	Lanes map[string]int64
}

// Health is how this relay fares.
type Health struct {
	// Draining is true from the moment the relay was asked to stop.
	Draining bool
	// LastCycle is when a poll cycle last finished; zero before the first.
	LastCycle time.Time
	// Destinations that this relay serves.
	Destinations []DestinationHealth
}

// DestinationHealth tells whether this relay can publish to a destination.
type DestinationHealth struct {
	Name  messaging.DestinationName
	Ready bool
	// Reason is a fixed text or failure code, empty where Ready.
	Reason string
	// Since is when Ready last changed.
	Since time.Time
	// BreakerOpen tells that a breaker keeps its rows back.
	BreakerOpen bool
	// BrokerBreaker and OwnBreaker are CLOSED, OPEN or HALF_OPEN; empty while the relay starts.
	BrokerBreaker, OwnBreaker string
	// SlowStart is how many rows may be open after a recovery; 0 is any number.
	SlowStart int
}
