package messaging

import (
	"context"
	"iter"
	"time"
)

// Publisher publishes to the one destination that it was made for. It is safe
// for concurrent use.
type Publisher[T any] interface {
	// Publish blocks for the verdict. The error is nil exactly for [Confirmed] at
	// the required level; the result is always filled.
	Publish(ctx context.Context, e Envelope[T], o *PublishOptions) (PublishResult, error)
	// PublishAsync calls done exactly once, never on the caller's stack. It blocks
	// only for admission.
	PublishAsync(ctx context.Context, e Envelope[T], o *PublishOptions, done func(PublishResult, error))
	// PublishSeq publishes in input order and yields in input order, reading the
	// input as far ahead as its window lets it. A verdict is yielded when the input
	// gives its next message or ends: what comes slowly is for PublishAsync. A break
	// waits for what is in flight.
	PublishSeq(ctx context.Context, in iter.Seq[Envelope[T]], o *PublishOptions) iter.Seq2[PublishResult, error]
}

// BatchPublisher publishes many messages in one call. A batch is no transaction,
// and nothing in it is retried automatically. It needs a grant.
type BatchPublisher[T any] interface {
	// PublishBatch gives the result of each index; the error is a [*BatchError].
	PublishBatch(ctx context.Context, es []Envelope[T], o *PublishOptions) ([]PublishResult, error)
}

// DelayedPublisher publishes later, where the broker can. It needs a grant.
type DelayedPublisher[T any] interface {
	PublishAfter(ctx context.Context, e Envelope[T], d time.Duration, o *PublishOptions) (PublishResult, error)
}

// Requester sends requests and waits for their replies. It needs a grant, and is
// for short calls.
type Requester[Q, R any] interface {
	// Request needs a context with a deadline. It ends once: with the reply, with
	// [ErrReplyTimeout], the context's error or [ErrClosed]. A request that was
	// rejected gives the error of its publish.
	Request(ctx context.Context, e Envelope[Q]) (Delivery[R], error)
}

// PublishOptions are the options of one publish; nil and zero fields mean the
// profile's settings.
type PublishOptions struct {
	// Timeout is how long to wait for the broker's answer.
	Timeout time.Duration
	// Confirmation is the level that the call requires.
	Confirmation ConfirmationLevel
	// Deduplicate asks for the broker's own deduplication by message id; a broker
	// that has none refuses the call.
	Deduplicate bool
	// Hint is broker-specific and needs a grant.
	Hint Hint
}

// Hint is a broker-specific option. An adapter refuses one it does not know.
type Hint interface{ BrokerKind() string }
