package rabbitmq

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"time"

	"github.com/backend-skeleton/relay/messaging"
)

// Config is one broker entry under one identity. Only Name and Seeds are
// required; a zero field takes its default.
type Config struct {
	// Name is the broker's name in the file; it is shown in logs and errors.
	Name string
	// Seeds are addresses of the broker's nodes, host or host:port. The default
	// port is 5672, with TLS 5671. They are tried in turn, one at a time.
	Seeds []string
	// VHost is the virtual host, default "/".
	VHost string
	// TLS is nil for plain TCP. An empty ServerName takes the host of the address.
	TLS *tls.Config
	// Credentials are asked at every connect, so that a rotated secret needs no
	// restart.
	Credentials Credentials
	// Management is the read-only identity for the management HTTP API. Without it
	// nothing can be proved about queues: every confirmation is a broker
	// acknowledgement and no key prefix is offered.
	Management Management
	// ClientID is what the broker shows as the connection's name, default "relay".
	ClientID string
	// Logger is [slog.Default] where nil.
	Logger *slog.Logger

	// DialTimeout bounds one connection attempt: TCP, TLS and AMQP handshake
	// together. Default 10 s.
	DialTimeout time.Duration
	// Heartbeat is asked of the broker, in whole seconds; a connection on which
	// nothing arrives is given up after three of them. Default 5 s, at least 1 s.
	Heartbeat time.Duration
	// BackoffInitial and BackoffMax bound the pause between attempts to connect; it
	// doubles, with jitter. Defaults 100 ms and 5 s.
	BackoffInitial, BackoffMax time.Duration
	// InspectTimeout bounds [Adapter.Inspect], besides its context. Default 5 s.
	InspectTimeout time.Duration
	// CloseTimeout bounds every farewell to the broker: after it the TCP connection
	// is dropped. Default 2 s.
	CloseTimeout time.Duration
	// ProofEvery is the pause between two looks at queue types. Default 5 minutes.
	ProofEvery time.Duration

	// ProducerInFlight is the most messages without an answer, all endpoints
	// together. Default 1000. One channel takes at most a quarter of them, so that
	// one mute destination does not stop the others.
	ProducerInFlight int
	// Channels is the number of channels per endpoint. A key always takes the same
	// one. Default 2.
	Channels int
	// MaxMessageBytes is the largest body; the broker's own default is 16 MiB.
	MaxMessageBytes int
}

// Credentials say who connects.
type Credentials struct {
	// Mechanism is PLAIN (the default) or EXTERNAL (the TLS client certificate).
	Mechanism string
	Username  string
	// Password is asked at every connect. It may be nil with EXTERNAL.
	Password func(ctx context.Context) (string, error)
}

// Management is where the management HTTP API listens, for example
// http://rabbitmq:15672. An empty URL means that it is not asked.
type Management struct {
	URL      string
	Username string
	Password func(ctx context.Context) (string, error)
	// TLS is for https; nil takes [Config.TLS].
	TLS *tls.Config
}

const (
	mechanismPlain    = "PLAIN"
	mechanismExternal = "EXTERNAL"
)

// withDefaults fills what is not set.
func (c Config) withDefaults() Config {
	set(&c.VHost, "/")
	set(&c.ClientID, "relay")
	set(&c.Credentials.Mechanism, mechanismPlain)
	set(&c.Logger, slog.Default())
	set(&c.DialTimeout, 10*time.Second)
	set(&c.Heartbeat, 5*time.Second)
	set(&c.BackoffInitial, 100*time.Millisecond)
	set(&c.BackoffMax, 5*time.Second)
	set(&c.InspectTimeout, 5*time.Second)
	set(&c.CloseTimeout, 2*time.Second)
	set(&c.ProofEvery, 5*time.Minute)
	set(&c.ProducerInFlight, 1000)
	set(&c.Channels, 2)
	set(&c.MaxMessageBytes, 16<<20)
	set(&c.Management.TLS, c.TLS)
	return c
}

func set[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// validate names every rule that is broken, as [messaging.ErrConfiguration].
func (c *Config) validate() error {
	var errs []error
	broken := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf("rabbitmq broker %s: %w: "+format, append([]any{c.Name, messaging.ErrConfiguration}, args...)...))
	}
	if c.Name == "" {
		broken("name is empty")
	}
	if len(c.Seeds) == 0 {
		broken("seeds are empty")
	}
	for i, seed := range c.Seeds {
		if _, err := c.address(seed); err != nil {
			broken("seed %d is not host or host:port", i+1)
		}
	}
	switch c.Credentials.Mechanism {
	case mechanismPlain:
		if c.Credentials.Username == "" || c.Credentials.Password == nil {
			broken("mechanism PLAIN needs user name and password")
		}
	case mechanismExternal:
		if c.TLS == nil {
			broken("mechanism EXTERNAL needs TLS")
		}
	default:
		broken("mechanism is neither PLAIN nor EXTERNAL")
	}
	if c.Management.URL != "" && (c.Management.Username == "" || c.Management.Password == nil) {
		broken("management needs user name and password")
	}
	if c.Heartbeat < time.Second {
		broken("heartbeat is shorter than 1s")
	}
	for name, d := range map[string]time.Duration{
		"dial timeout": c.DialTimeout, "initial backoff": c.BackoffInitial, "inspect timeout": c.InspectTimeout,
		"close timeout": c.CloseTimeout, "proof interval": c.ProofEvery,
	} {
		if d < 0 {
			broken("%s is negative", name)
		}
	}
	if c.BackoffMax < c.BackoffInitial {
		broken("largest backoff is shorter than the initial one")
	}
	if c.ProducerInFlight < 1 || c.Channels < 1 || c.MaxMessageBytes < 1 {
		broken("in-flight limit, channels and message size must be positive")
	}
	return errors.Join(errs...)
}

// address completes a seed with the default port.
func (c *Config) address(seed string) (string, error) {
	if host, port, err := net.SplitHostPort(seed); err == nil {
		if host == "" || port == "" {
			return "", errors.New("host or port is empty")
		}
		return seed, nil
	}
	port := "5672"
	if c.TLS != nil {
		port = "5671"
	}
	address := net.JoinHostPort(seed, port)
	host, _, err := net.SplitHostPort(address)
	if err != nil || host == "" {
		return "", errors.New("not an address")
	}
	return address, nil
}

// window is the most open messages of one channel.
func (c *Config) window() int { return max(1, c.ProducerInFlight/4) }
