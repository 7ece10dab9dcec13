package platform

import (
	"context"

	"github.com/backend-skeleton/relay/messaging"
)

// consumer is one consumer of the file with its routes.
type consumer struct{ name messaging.ConsumerName }

func (c *consumer) start(context.Context) error { return nil }

func (c *consumer) trouble() string { return "" }

func drainAll(context.Context, []*consumer) error { return nil }
