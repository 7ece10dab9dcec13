package config

import (
	"path"
	"time"
)

// Served is a destination that relay.serve matches, with every setting resolved.
type Served struct {
	// Name is the logical name: the row's destination column.
	Name string
	// Broker is the name of its broker in the file, BrokerKind its kind.
	Broker     string
	BrokerKind BrokerKind
	Kind       DestinationKind
	// Physical is where it is on the broker, by the keys of the file (topic, exchange, routing-key, routing-key-from,
	// queue); absent ones are left out.
	Physical map[string]string
	// Ordering is the scope of order; KEY is what the relay keeps.
	Ordering Ordering
	// Confirmation is the proof that a row needs.
	Confirmation Confirmation
	// Timeout is when an unanswered publish becomes AMBIGUOUS.
	Timeout time.Duration
	// RequestTimeout and DeliveryTimeout are the Kafka client's own bounds.
	RequestTimeout, DeliveryTimeout time.Duration
	// AbandonAfter is when a publish without answer is given up by closing the session.
	AbandonAfter time.Duration
	// MaxBytes is the largest payload.
	MaxBytes int64
	// Attempts is how often a row is tried before it is PARKED.
	Attempts int
	// Backoff is the wait between tries.
	Backoff Backoff
	// HeadPolicy says what a parked row does to its key.
	HeadPolicy HeadPolicy
	// Keyless says what becomes of a row without key under KEY.
	Keyless Keyless
	// BlockedFor is how long a destination may be refused for its rights or configuration before its rows are PARKED; 0 is
	// for ever.
	BlockedFor time.Duration
	// Types are the message types and versions that may be sent; nil: the file has no catalogue and every type may.
	Types map[string]CatalogueType
}

// Served lists the destinations that relay.serve matches, by name.
func (c *Config) Served() []Served {
	var out []Served
	for name, dest := range each(c.Messaging.Destinations) {
		if c.serves(name) {
			out = append(out, c.resolve(name, dest))
		}
	}
	return out
}

// Resolved is one destination of the file, served or not, with every setting resolved.
func (c *Config) Resolved(name string) (Served, bool) {
	dest, ok := c.Messaging.Destinations[name]
	if !ok {
		return Served{}, false
	}
	return c.resolve(name, dest), true
}

// Registered lists every destination of the file, served or not, by name: what the relay makes known to the database.
func (c *Config) Registered() []string {
	var out []string
	for name := range each(c.Messaging.Destinations) {
		out = append(out, name)
	}
	return out
}

func (c *Config) serves(name string) bool {
	for _, pattern := range c.Relay.Serve {
		if ok, _ := path.Match(pattern, name); ok {
			return true
		}
	}
	return false
}

func (c *Config) resolve(name string, dest Destination) Served {
	p, r, o := dest.Producer, c.Relay, dest.Outbox
	return Served{
		Name: name, Broker: dest.Broker, BrokerKind: c.Messaging.Brokers[dest.Broker].Kind, Kind: dest.Kind,
		Physical: dest.Physical.keys(), Ordering: dest.Guarantees.Ordering, Confirmation: p.Confirmation,
		Timeout:         p.Timeout.Std(),
		RequestTimeout:  orDefault(p.RequestTimeout, min(requestTimeout, p.Timeout)).Std(),
		DeliveryTimeout: p.delivery().Std(),
		AbandonAfter:    orDefault(p.AbandonAfter, max(abandonAfter, p.delivery())).Std(),
		MaxBytes:        int64(orDefault(dest.Payload.MaxBytes, Size(c.LogicalPayload()))),
		Attempts:        orDefault(o.Attempts, r.Attempts),
		Backoff:         o.Backoff.over(r.Backoff),
		HeadPolicy:      orWord(o.HeadPolicy, r.HeadPolicy),
		Keyless:         orWord(o.Keyless, r.Keyless),
		BlockedFor:      blockedFor(o.BlockedFor, r.BlockedFor),
		Types:           c.Messaging.Catalogue,
	}
}

// The defaults that depend on other settings.
const (
	requestTimeout  = Duration(2 * time.Second)
	deliveryTimeout = Duration(20 * time.Second)
	abandonAfter    = Duration(time.Minute)
)

// delivery is the delivery timeout in force.
func (p Producer) delivery() Duration {
	return orDefault(p.DeliveryTimeout, max(deliveryTimeout, 2*p.Timeout))
}

// over gives base with what the destination sets itself.
func (o BackoffOverride) over(base Backoff) Backoff {
	return Backoff{
		Initial:    orDefault(o.Initial, base.Initial),
		Max:        orDefault(o.Max, base.Max),
		Multiplier: orDefault(o.Multiplier, base.Multiplier),
		Jitter:     orWord(o.Jitter, base.Jitter),
	}
}

// blockedFor is the destination's own, else the relay's; 0 where neither is given.
func blockedFor(own, all *Duration) time.Duration {
	switch {
	case own != nil:
		return own.Std()
	case all != nil:
		return all.Std()
	default:
		return 0
	}
}

func orWord[T ~string](word, fallback T) T {
	if word == "" {
		return fallback
	}
	return word
}

// keys is the place as a map, without what is absent.
func (p Physical) keys() map[string]string {
	out := map[string]string{}
	for key, text := range map[string]string{
		"topic": p.Topic, "exchange": p.Exchange, "routing-key": p.RoutingKey,
		"routing-key-from": string(p.RoutingKeyFrom), "queue": p.Queue,
	} {
		if text != "" {
			out[key] = text
		}
	}
	return out
}
