package client

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/backend-skeleton/relay/internal/publish"
	"github.com/backend-skeleton/relay/messaging"
	"github.com/backend-skeleton/relay/messaging/codec/json"
	"github.com/backend-skeleton/relay/messaging/codec/raw"
)

// Config is what a Client knows of its service. Producer alone is required.
type Config struct {
	// Producer is the logical name of the service; every message carries it.
	Producer messaging.ProducerID
	// Profiles gives limits, keys and catalogue per destination. Nil, or no profile for a destination: form and the
	// default limits are checked.
	Profiles messaging.Profiles
	// Codecs encode payloads, by content type. Default: JSON, and raw bytes. The first one serves messages whose envelope and profile
	// name no content type.
	Codecs []messaging.Codec
	// Trace reads the trace context of a call. Nil: the envelope's own is kept.
	Trace func(context.Context) messaging.TraceContext
	// Wake is the pool over which relays are woken after a commit, on connections of its own. It may be the pool of the
	// business transactions. Nil: relays find the message with their next poll.
	Wake *pgxpool.Pool
	// Logger hears when wake-ups begin to fail and when they work again, and of each message of raw bytes, which goes
	// without schema validation. Default: slog.Default().
	Logger *slog.Logger
}

// Client writes messages into the outbox. It is safe for concurrent use.
type Client struct {
	producer messaging.ProducerID
	profiles messaging.Profiles
	codecs   []messaging.Codec
	trace    func(context.Context) messaging.TraceContext
	logger   *slog.Logger
	wake     *waker // nil without a pool
}

// New checks the configuration. Every finding is an [messaging.ErrConfiguration].
func New(c Config) (*Client, error) {
	if c.Codecs == nil {
		standard, err := json.New(json.Config{})
		if err != nil {
			return nil, refused("new client", messaging.ErrConfiguration, "", err)
		}
		bytes, err := raw.New("")
		if err != nil {
			return nil, refused("new client", messaging.ErrConfiguration, "", err)
		}
		c.Codecs = []messaging.Codec{standard, bytes}
	}
	if err := c.validate(); err != nil {
		return nil, refused("new client", messaging.ErrConfiguration, "", err)
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	client := &Client{producer: c.Producer, profiles: c.Profiles, codecs: c.Codecs, trace: c.Trace, logger: c.Logger}
	if c.Wake != nil {
		client.wake = newWaker(c.Wake, c.Logger)
	}
	return client, nil
}

// Close waits until the last wake-up is on its way. Woken does nothing from then on. Enqueueing needs no Close.
func (c *Client) Close() {
	if c.wake != nil {
		c.wake.close()
	}
}

func (c Config) validate() error {
	var found []error
	if _, err := messaging.ParseProducerID(string(c.Producer)); err != nil {
		found = append(found, err)
	}
	if len(c.Codecs) == 0 {
		found = append(found, errors.New("there is no codec"))
	}
	seen := map[string]bool{}
	for _, codec := range c.Codecs {
		if codec == nil {
			found = append(found, errors.New("a codec is nil"))
			continue
		}
		if seen[codec.ContentType()] {
			found = append(found, fmt.Errorf("two codecs serve the content type %s", codec.ContentType()))
		}
		seen[codec.ContentType()] = true
	}
	return errors.Join(found...)
}

func (c *Client) profile(name messaging.DestinationName) messaging.Profile {
	if c.profiles != nil {
		if p, known := c.profiles.Profile(name); known {
			return p
		}
	}
	return messaging.Profile{}
}

// codec chooses by the envelope's content type, then the profile's, then takes the first one.
func (c *Client) codec(envelope, profile string) (messaging.Codec, error) {
	wanted := envelope
	if wanted == "" {
		wanted = profile
	}
	if codec := publish.Codec(c.codecs, wanted); codec != nil {
		return codec, nil
	}
	return nil, errors.New("no codec is registered for the content type")
}
