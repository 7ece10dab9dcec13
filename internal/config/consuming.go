package config

import (
	"time"
)

// Consuming is one consumer with every setting resolved.
type Consuming struct {
	// Name is the consumer's name: inbox, metrics, pauses.
	Name string
	// Source is the destination that it reads.
	Source Served
	// Delivery and Ordering are the destination's promises.
	Delivery Delivery
	Ordering Ordering
	// Group of a Kafka consumer, Queue of a RabbitMQ one.
	Group, Queue string
	// Concurrency is how many handlers run at once, PerPartition how many of one partition.
	Concurrency, PerPartition int
	// Prefetch is how many deliveries the broker sends ahead.
	Prefetch int
	// HandlerTimeout is when a handler's context ends.
	HandlerTimeout time.Duration
	Retry          RetryPlan
	// DLQ is the destination of what failed, "" for none.
	DLQ string
	// Parking are the places; "" for none.
	Parking     ParkingPlaces
	OnExhausted OnExhausted
	SideEffect  SideEffect
	Unhandled   Unhandled
	// ReviewDoubtful parks what is exhausted with a possible side effect for review.
	ReviewDoubtful bool
	// RetryPublishes is how many hand-overs run at once.
	RetryPublishes int
}

// RetryPlan is a retry with its defaults.
type RetryPlan struct {
	Mode RetryMode
	// MaxAttempts counts calls of the handler, the first included.
	MaxAttempts  int
	Initial, Max time.Duration
	Multiplier   float64
	Jitter       Jitter
	Impact       OrderingImpact
	Retryable    []Category
	NonRetryable []Category
}

// Consuming resolves one consumer of the file; false for one that it does not have.
func (c *Config) Consuming(name string) (Consuming, bool) {
	consumer, ok := c.Messaging.Consumers[name]
	if !ok {
		return Consuming{}, false
	}
	dest := c.Messaging.Destinations[consumer.Destination]
	return Consuming{
		Name: name, Source: c.resolve(consumer.Destination, dest),
		Delivery: dest.Guarantees.Delivery, Ordering: dest.Guarantees.Ordering,
		Group: orWord(consumer.Group, name), Queue: orWord(consumer.Queue, dest.Physical.Queue),
		Concurrency: consumer.Concurrency, PerPartition: orDefault(consumer.MaxInFlightPerPartition, 1),
		Prefetch:       orDefault(consumer.Prefetch, 2*consumer.Concurrency),
		HandlerTimeout: consumer.HandlerTimeout.Std(), Retry: consumer.Retry.plan(), DLQ: consumer.DLQ.Destination,
		Parking: consumer.Parking.over(c.Messaging.Parking), OnExhausted: consumer.OnExhausted,
		SideEffect: consumer.ExternalSideEffect, Unhandled: consumer.unhandled(dest.Kind), ReviewDoubtful: consumer.ReviewDoubtful,
		RetryPublishes: orDefault(c.Messaging.Limits.RetryPublishes.Value, 4),
	}, true
}

// unhandled is what becomes of a catalogue type without route: events pass others by, commands are meant for somebody.
func (c Consumer) unhandled(kind DestinationKind) Unhandled {
	switch {
	case c.Unhandled != "":
		return c.Unhandled
	case kind == EventStream || kind == PubSub:
		return IgnoreUnhandled
	}
	return ParkUnhandled
}

// The defaults of a retry.
const (
	retryAttempts = 3
	retryInitial  = Duration(time.Second)
	retryMax      = Duration(30 * time.Second)
)

func (r Retry) plan() RetryPlan {
	p := RetryPlan{
		Mode: r.Mode, MaxAttempts: orDefault(r.MaxAttempts, retryAttempts), Multiplier: orDefault(r.Multiplier, 2),
		Jitter: orWord(r.Jitter, JitterFull), Impact: orWord(r.OrderingImpact, AllowReorder),
		Retryable: r.Retryable, NonRetryable: r.NonRetryable,
	}
	longest := retryMax
	switch r.Mode {
	case RetryNone:
		p.MaxAttempts = 1
	case RetryInline:
		longest = inlineMost
	case RetryBlocking, PausePartition:
		p.Impact = orWord(r.OrderingImpact, Preserve)
	case RetryDestination, BrokerDelayed:
		p.Jitter = JitterNone
	}
	most := orDefault(r.MaxDelay, max(longest, orDefault(r.InitialDelay, 0)))
	p.Max = most.Std()
	p.Initial = orDefault(r.InitialDelay, min(retryInitial, most)).Std()
	if p.Retryable == nil {
		p.Retryable = []Category{"TRANSIENT_INFRASTRUCTURE", "THROTTLED", "PROCESSING_TRANSIENT"}
	}
	return p
}
