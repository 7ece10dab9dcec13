package transport

import (
	"context"

	"github.com/backend-skeleton/relay/messaging"
)

// Adapter is one broker entry of the configuration under one identity, either
// the producer's or the consumer's. It is safe for concurrent use.
type Adapter interface {
	// Capabilities are asked of the broker, so that they are seen, not assumed.
	Capabilities(ctx context.Context, e Endpoint) (messaging.Capabilities, error)
	// Publisher serves the given endpoints. It returns at once and connects in the
	// background: a broker that is down is no error of start.
	Publisher(ctx context.Context, es []Endpoint) (Publisher, error)
	// Subscribe delivers to the sink until the consumer is closed.
	Subscribe(ctx context.Context, s Subscription, sink Sink) (Consumer, error)
	// Inspect compares what is wanted with what the broker has. It only reads:
	// nothing in this port creates, purges or deletes.
	Inspect(ctx context.Context, want []Endpoint) ([]Drift, error)
	// Close ends every connection. Publishers and consumers are closed before.
	Close(ctx context.Context) error
}

// Endpoint is a destination's profile as far as it concerns its broker; the
// adapter checks it.
type Endpoint struct {
	Name messaging.DestinationName
	// Physical is the place on the broker: topic, or exchange, routing-key and
	// queue.
	Physical map[string]string
	// Producer and Consumer are settings of the profile, by their names in the
	// file.
	Producer, Consumer map[string]any
}

// Drift is one difference between the wanted and the real topology.
type Drift struct {
	Destination       messaging.DestinationName
	Field, Want, Have string
}
