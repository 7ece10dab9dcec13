package messagingtest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/backend-skeleton/relay/messaging"
	"github.com/backend-skeleton/relay/messaging/transport"
)

// Subject is one adapter on trial, with the handles by which the suite makes
// trouble and looks behind it. [RunContract] opens one for every step and
// closes its adapter.
//
// A handle that is nil leaves steps unproved, and the report names them; it
// never makes them pass.
type Subject struct {
	Adapter transport.Adapter
	// Place makes an empty topic or queue of this step's own and gives its
	// endpoint. Two names are two places. Required.
	Place func(name messaging.DestinationName) transport.Endpoint
	// Nowhere is the endpoint of a place that does not exist.
	Nowhere func() transport.Endpoint
	// Stored reads what a place has been given, in its order per key, by other means
	// than the adapter.
	Stored func(transport.Endpoint) []transport.Message
	// Inject makes a fault happen. An error that is [errors.ErrUnsupported] says
	// that this set-up cannot, one that is [ErrNoSuchFailure] that the broker knows
	// no such failure.
	Inject func(Fault) (undo func(), err error)
	// As opens an adapter that the broker refuses for the reason, for the places of
	// this subject. It is closed by the suite. Errors are as of Inject.
	As func(Denial) (transport.Adapter, error)
	// Logs gives all that the adapter has logged so far; nil for an adapter that
	// logs nothing.
	Logs func() string
	// MaxBytes is the largest payload that the broker takes, 0 where it has no limit
	// that a test could reach.
	MaxBytes int
	// PublishOnly says that there is no consuming half: Subscribe has to refuse with
	// [messaging.ErrCapabilityUnavailable], and what needs it is not applicable.
	PublishOnly bool
	// Runtime runs consumers for the steps about handlers. Without it a small one
	// of this package's own does.
	Runtime Runtime
	// Patience bounds every wait for what must come. The default is 20 s.
	Patience time.Duration
	// Quiet is how long the suite watches for what must not come. The default is
	// 250 ms.
	Quiet time.Duration
}

// ErrNoSuchFailure is what [Subject.Inject] answers where the broker cannot fail
// in this way at all: the step is not applicable.
var ErrNoSuchFailure = errors.New("the broker knows no such failure")

// Runtime starts a consumer with one handler. stop is a graceful end: no further
// attempt begins, the running handlers end and what they gave is settled.
type Runtime func(ctx context.Context, c Consuming) (stop func(context.Context) error, err error)

// Consuming is what a [Runtime] has to run.
type Consuming struct {
	Adapter      transport.Adapter
	Subscription transport.Subscription
	// Codec decodes payloads of [ItemType], version 1. Everything else is parked.
	Codec   messaging.Codec
	Handler messaging.Handler[Item]
	// MaxAttempts is how often a message is handled; a retry happens in place, at
	// once or a moment later, and keeps the order.
	MaxAttempts int
	// Concurrency is how many handlers may run, one per key where Ordered is set.
	Concurrency int
	Ordered     bool
	// DeadLetter and Parking are where messages end; the source is settled after the
	// confirmation of that publish.
	DeadLetter, Parking transport.Endpoint
}

// Item is the payload of the suite's messages.
type Item struct {
	N    int    `json:"n"`
	Text string `json:"text,omitempty"`
}

// hardLimit is the largest payload that the platform ever sends.
const hardLimit = 8 << 20

// ItemType is the message type of [Item].
const ItemType messaging.MessageType = "contract.item"

// Subject puts the broker on trial, with topics or with queues as places.
//
// From then on only the places that the suite asks for exist.
func (b *Broker) Subject(topics bool) Subject {
	b.declare("")
	endpoint := func(name messaging.DestinationName) transport.Endpoint {
		if topics {
			return transport.Endpoint{Name: name, Physical: map[string]string{"topic": string(name)}}
		}
		return transport.Endpoint{Name: name, Physical: map[string]string{"queue": string(name)}}
	}
	return Subject{
		Adapter: b.Adapter(),
		Place: func(name messaging.DestinationName) transport.Endpoint {
			e := endpoint(name)
			b.declare(PlaceOf(e))
			return e
		},
		Nowhere:  func() transport.Endpoint { return endpoint("nowhere") },
		Stored:   func(e transport.Endpoint) []transport.Message { return b.Stored(PlaceOf(e)) },
		Inject:   func(f Fault) (func(), error) { return b.Inject(f), nil },
		As:       func(d Denial) (transport.Adapter, error) { return b.AdapterAs(d), nil },
		MaxBytes: b.settings.maxBytes,
	}
}

// MemorySubject opens a fresh broker for every step, for [RunContract].
func MemorySubject(able messaging.Capabilities, topics bool, options ...Option) func(testing.TB) Subject {
	return func(testing.TB) Subject {
		return NewBroker(able, append([]Option{WithMaxBytes(hardLimit)}, options...)...).Subject(topics)
	}
}

func (b *Broker) declare(place string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.settings.declared == nil {
		b.settings.declared = map[string]bool{}
	}
	b.settings.declared[place] = true
}
