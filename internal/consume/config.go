package consume

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/backend-skeleton/relay/messaging"
	"github.com/backend-skeleton/relay/messaging/transport"
)

// Config is one consumer with every setting resolved.
type Config struct {
	Name messaging.ConsumerName
	// Endpoint is what it reads, with the consumer's own settings; Group is told to handlers.
	Endpoint transport.Endpoint
	Group    string
	Adapter  transport.Adapter
	Caps     messaging.Capabilities
	// Publisher takes the hand-overs, on the same broker.
	Publisher transport.Publisher
	Delivery  messaging.DeliveryGuarantee
	Ordering  messaging.Ordering
	// Concurrency is how many handlers run at once, PerUnit how many of one partition or queue; 0 is as many.
	Concurrency, PerUnit int
	// Prefetch bounds how many deliveries of a unit wait; 0 is twice the concurrency. MaxBufferedBytes bounds their
	// payload in all; 0 is 64 MiB.
	Prefetch         int
	MaxBufferedBytes int64
	// HandlerTimeout ends a handler's context; 0 is 30 s. A handler that runs on for another Drain is stuck; 0 is 30 s.
	HandlerTimeout, Drain time.Duration
	// SettleTimeout is when a settlement without answer is UNKNOWN; 0 is 30 s.
	SettleTimeout time.Duration
	Policy        messaging.RetryPolicy
	Block         bool // what is used up waits for an operator
	// ReviewDoubtful parks for review what is used up and may have had an effect.
	ReviewDoubtful bool
	// ParkUnhandled parks a catalogue type without route; else it is settled.
	ParkUnhandled bool
	// Stages are the places of the policy's [Stages], in their order.
	Stages []transport.Endpoint
	// StagesReturn says that the broker brings a stage's messages back by itself, so that nobody reads the stages.
	StagesReturn bool
	// DeadLetters, and Parking by place.
	DeadLetters *transport.Endpoint
	Parking     map[messaging.Parking]transport.Endpoint
	// Handovers is how many hand-overs are on their way at once; 0 is 4.
	Handovers int
	// Batch is the most deliveries of one batch; 0 is 100.
	Batch  int
	Codecs []messaging.Codec
	// Types is the catalogue's part for the destination; nil is no catalogue.
	Types   map[messaging.MessageType]messaging.TypeRule
	Tenants *messaging.Tenants
	// MaxBytes is the largest payload that is handled; 0 is 8 MiB.
	MaxBytes int64
	Routes   []Route
	// Handling marks the context of handlers; nil leaves it as it is.
	Handling func(context.Context) context.Context
	Hooks    Hooks
	Logger   *slog.Logger
}

// HardMaxBytes is the largest payload that the platform ever carries.
const HardMaxBytes = 8 << 20

func (c *Config) complete() error {
	orInt := func(n *int, d int) {
		if *n <= 0 {
			*n = d
		}
	}
	orTime := func(t *time.Duration, d time.Duration) {
		if *t <= 0 {
			*t = d
		}
	}
	orInt(&c.Concurrency, 1)
	orInt(&c.PerUnit, c.Concurrency)
	orInt(&c.Prefetch, 2*c.Concurrency)
	orInt(&c.Handovers, 4)
	orInt(&c.Batch, 100)
	orTime(&c.HandlerTimeout, 30*time.Second)
	orTime(&c.Drain, 30*time.Second)
	orTime(&c.SettleTimeout, 30*time.Second)
	if c.MaxBufferedBytes <= 0 {
		c.MaxBufferedBytes = 64 << 20
	}
	if c.MaxBytes <= 0 {
		c.MaxBytes = HardMaxBytes
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Handling == nil {
		c.Handling = func(ctx context.Context) context.Context { return ctx }
	}
	return c.check()
}

func (c *Config) check() error {
	switch {
	case c.Adapter == nil:
		return errors.New("there is no adapter")
	case len(c.Routes) == 0:
		return errors.New("there is no handler")
	case len(c.Codecs) == 0:
		return errors.New("there is no codec")
	case len(c.Stages) != len(Stages(c.Policy)):
		return fmt.Errorf("the policy has %d stages, there are places for %d", len(Stages(c.Policy)), len(c.Stages))
	case c.Publisher == nil && (len(c.Stages) > 0 || c.DeadLetters != nil || len(c.Parking) > 0):
		return errors.New("there is no publisher for hand-overs")
	case c.strict() && slices.Contains([]messaging.Mode{messaging.ModeInline, messaging.ModeRetryDestination, messaging.ModeBrokerDelayed}, c.Policy.Mode):
		return fmt.Errorf("the retry mode %s lets later messages overtake, the ordering %s does not", c.Policy.Mode, c.Ordering)
	}
	seen := map[routeKey]bool{}
	for _, r := range c.Routes {
		switch {
		case seen[r.key()]:
			return fmt.Errorf("two handlers for %s version %d", r.Type, r.Version)
		case r.way == batched && len(c.Routes) > 1:
			return fmt.Errorf("the batch handler of %s has to be the consumer's only one", r.Type)
		case r.way == batched && c.Delivery == messaging.AtMostOnce, r.way == manual && c.Delivery == messaging.AtMostOnce:
			return fmt.Errorf("the handler of %s settles by itself, and at most once settles before it", r.Type)
		}
		seen[r.key()] = true
	}
	return nil
}

// strict tells whether messages of one ordering unit must not overtake each other.
func (c *Config) strict() bool {
	return c.Ordering > messaging.OrderingNone && c.Policy.Impact != messaging.ImpactAllowReorder
}
