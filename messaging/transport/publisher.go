package transport

import (
	"context"

	"github.com/backend-skeleton/relay/messaging"
)

// Publisher publishes encoded messages.
type Publisher interface {
	// Publish keeps the order of ms and calls done exactly once per index, when
	// the broker answered or the adapter gave up, maybe long after ctx ended and
	// maybe from several goroutines at once. done must not block. Publish itself
	// never blocks longer than ctx.
	Publish(ctx context.Context, to Endpoint, ms []Message, done func(i int, r messaging.PublishResult))
	// Close waits for the answers to what is in flight, at most until ctx ends;
	// what is unanswered then is ambiguous.
	Close(ctx context.Context) error
}

// KeyPrefixer is an optional ability of a [Publisher]: of one call's messages of
// one key, what is stored is a prefix in order. The adapter sees to it; the
// caller opens no second call for a key before the first is done. Without it the
// caller sends one message per key at a time.
type KeyPrefixer interface {
	KeyPrefix(to Endpoint) bool
}

// Hinter is an optional ability of a [Publisher]: it knows broker-specific
// options. Hint writes one into the message, or refuses it with a
// [messaging.ErrCapabilityUnavailable].
type Hinter interface {
	Hint(to Endpoint, m *Message, h messaging.Hint) error
}

// Replier is an optional ability of an [Adapter]: a reply queue of this process
// alone, which ends with ctx. A responder answers to its address by an endpoint
// whose Physical holds it under "reply-to".
type Replier interface {
	ReplyQueue(ctx context.Context) (address string, in <-chan Delivery, err error)
}
