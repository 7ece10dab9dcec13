package relay

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/backend-skeleton/relay/internal/outbox"
	"github.com/backend-skeleton/relay/internal/publish"
	"github.com/backend-skeleton/relay/messaging"
	"github.com/backend-skeleton/relay/messaging/transport"
)

// Config of a [Relay].
type Config struct {
	// Store is the outbox. Its owner id is this relay's identity.
	Store *outbox.Store
	// Brokers by their names in the file.
	Brokers map[string]Broker
	// Destinations that this relay serves.
	Destinations []Destination
	// Known are all destinations of the file, served or not. They are registered, so that rows of those that nobody
	// serves now are told from rows that nobody knows.
	Known []string

	// Lease is how long lanes stay owned without renewal; the same as the store's. Default 30 s.
	Lease time.Duration
	// Poll is the longest pause between two looks for work. Default 500 ms.
	Poll time.Duration
	// Batch is the most rows of one lane per claim. Default 100.
	Batch int
	// UnknownGrace is the age from which a row of a destination that no file names is parked. Default 1 minute.
	UnknownGrace time.Duration
	// Retention of PUBLISHED rows and of the archive.
	Retention Retention
	// Drain bounds a stop. Default 30 s.
	Drain time.Duration
	// Breaker for every broker and destination.
	Breaker BreakerConfig
	// IdleProbe is after how long without an answer to any row a broker is asked something harmless, so that readiness
	// knows of one that is away although nothing is to be sent. Default 10 s; negative: never.
	IdleProbe time.Duration
	// Wake, if set, listens for notifications and calls woken for each; it returns when ctx ends. Polling goes on
	// without it.
	Wake func(ctx context.Context, woken func()) error
	// Hooks are told what happens. Logger defaults to none.
	Hooks  Hooks
	Logger *slog.Logger
}

// Broker is one broker of the file.
type Broker struct {
	Adapter transport.Adapter
	// InFlight is the most rows of all destinations of this broker that are open at a time. Default 1000.
	InFlight int
}

// Destination is a served destination with its settings resolved.
type Destination struct {
	Name     messaging.DestinationName
	Broker   string
	Endpoint transport.Endpoint
	// Ordered keeps the order of each ordering key.
	Ordered bool
	// Block lets a parked row hold its key; without it the key goes on.
	Block bool
	// Keyless allows rows without ordering key where Ordered is set; without it they are parked.
	Keyless bool
	// OwnRoutingKey says that rows carry their routing key, so that an unroutable one says nothing of the others.
	OwnRoutingKey bool
	// Attempts before a row is parked. Default 20.
	Attempts int
	Backoff  Backoff
	// Timeout of a publish. Default 5 s. It must be shorter than the lease.
	Timeout time.Duration
	// BlockedFor is how long the destination may be refused for its rights or configuration before rows that have waited
	// so long are parked. Default 0: never.
	BlockedFor time.Duration
	// Confirmation is the level that the profile asks for.
	Confirmation messaging.ConfirmationLevel
	// MaxBytes of a payload. Default 1 MiB.
	MaxBytes int64
	// Types of the catalogue for this destination; nil where the file has none.
	Types map[messaging.MessageType]bool
}

// maxDestinationBytes bounds the payload that one relay has open for a destination.
const maxDestinationBytes = 4 << 20

func (c *Config) setDefaults() {
	def(&c.Lease, 30*time.Second)
	def(&c.Poll, 500*time.Millisecond)
	def(&c.Batch, 100)
	def(&c.UnknownGrace, time.Minute)
	def(&c.Drain, 30*time.Second)
	def(&c.Breaker.Failures, 5)
	def(&c.Breaker.OpenFor, time.Second)
	def(&c.Breaker.OpenMax, 30*time.Second)
	def(&c.Breaker.SlowStart, 10)
	def(&c.IdleProbe, 10*time.Second)
	def(&c.Retention.Share, 0.25)
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	for i := range c.Destinations {
		d := &c.Destinations[i]
		def(&d.Attempts, 20)
		def(&d.Timeout, 5*time.Second)
		def(&d.MaxBytes, 1<<20)
		def(&d.Confirmation, messaging.LevelBrokerAck)
		d.Backoff.setDefaults()
	}
}

func def[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

func (c *Config) validate() error {
	var errs []error
	if c.Store == nil {
		errs = append(errs, errors.New("relay: no store"))
	}
	for i := range c.Destinations {
		d := &c.Destinations[i]
		if b, ok := c.Brokers[d.Broker]; !ok || b.Adapter == nil {
			errs = append(errs, fmt.Errorf("relay: destination %s: there is no broker %q", d.Name, d.Broker))
		}
		if d.Timeout+publish.Grace >= c.Lease {
			errs = append(errs, fmt.Errorf("relay: destination %s: a publish timeout of %v does not fit into a lease of %v", d.Name, d.Timeout, c.Lease))
		}
	}
	return errors.Join(errs...)
}
