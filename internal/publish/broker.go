package publish

import (
	"context"
	"sync"
	"time"

	"github.com/backend-skeleton/relay/messaging"
	"github.com/backend-skeleton/relay/messaging/transport"
)

// Hooks hear of direct publishes; every one may be nil. They must not block.
type Hooks struct {
	// Done is told every verdict.
	Done func(Event)
	// Late is told an answer that came after the verdict.
	Late func(Event)
	// InFlight is told how many messages of a broker are handed over and not answered.
	InFlight func(broker string, messages int)
	// Audit is told what an auditor asks for: that a message went without schema validation.
	Audit func(to messaging.DestinationName, what string)
	// Misstep is told a step between states that does not exist and was not taken: a mistake of this package.
	Misstep func(to messaging.DestinationName, from, next State)
}

// Event is one verdict, or one late answer.
type Event struct {
	Destination messaging.DestinationName
	Broker      string
	// Stage is the last state before the end.
	Stage  State
	Result messaging.PublishResult
	// Required is the level that the call asked for.
	Required messaging.ConfirmationLevel
}

// Broker is one broker that is published to: its publisher, the places for messages in flight, and its end. It is safe
// for concurrent use.
type Broker struct {
	name      string
	publisher transport.Publisher
	hooks     Hooks
	slots     chan struct{}
	turn      chan struct{}  // whoever takes several places, so that two of them never wait for each other
	calls     sync.WaitGroup // verdicts that are open

	mu       sync.Mutex // guards what follows
	state    brokerState
	inFlight int
}

type brokerState uint8

const (
	open     brokerState = iota
	draining             // only from inside handlers
	closed
)

// NewBroker takes over a publisher. inFlight is how many messages may wait for the broker's answer, 1000 for 0.
func NewBroker(name string, p transport.Publisher, inFlight int, h Hooks) *Broker {
	if inFlight <= 0 {
		inFlight = 1000
	}
	return &Broker{name: name, publisher: p, hooks: h, slots: make(chan struct{}, inFlight), turn: make(chan struct{}, 1)}
}

// Name is the broker's name in the file.
func (b *Broker) Name() string { return b.name }

// Publisher is the adapter's own, for what goes the whole way without a typed publisher: dead letters and retries.
func (b *Broker) Publisher() transport.Publisher { return b.publisher }

type handlingKey struct{}

// Handling marks the context of a handler: what it publishes is still admitted while the process drains.
func Handling(ctx context.Context) context.Context {
	return context.WithValue(ctx, handlingKey{}, true)
}

// enter admits one call, which exit ends; false where the broker is closed for it.
func (b *Broker) enter(ctx context.Context) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.state == closed || b.state == draining && ctx.Value(handlingKey{}) == nil {
		return false
	}
	b.calls.Add(1)
	return true
}

func (b *Broker) exit() { b.calls.Done() }

// acquire takes places for n messages; it waits for them, at most until the timeout or the end of ctx, and then gives
// back what it has. n is at most the number of places there are.
func (b *Broker) acquire(ctx context.Context, n int, timeout time.Duration) error {
	var fires <-chan time.Time
	take := func(from chan struct{}) error {
		select {
		case from <- struct{}{}:
			return nil
		default:
		}
		if fires == nil {
			fires = time.After(timeout)
		}
		select {
		case from <- struct{}{}:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		case <-fires:
			return messaging.ErrBackpressure
		}
	}
	if n > 1 {
		if err := take(b.turn); err != nil {
			return err
		}
		defer func() { <-b.turn }()
	}
	for taken := range n {
		if err := take(b.slots); err != nil {
			b.giveBack(taken)
			return err
		}
	}
	b.count(n)
	return nil
}

func (b *Broker) giveBack(n int) {
	for range n {
		<-b.slots
	}
}

// release frees the places of messages that the adapter is done with.
func (b *Broker) release(n int) {
	b.giveBack(n)
	b.count(-n)
}

func (b *Broker) count(n int) {
	b.mu.Lock()
	b.inFlight += n
	now := b.inFlight
	b.mu.Unlock()
	if b.hooks.InFlight != nil {
		b.hooks.InFlight(b.name, now)
	}
}

// InFlight is how many messages are handed over and not answered.
func (b *Broker) InFlight() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.inFlight
}

// Drain refuses every call that does not come from inside a handler.
func (b *Broker) Drain() { b.become(draining) }

// Close refuses every call, waits for the verdicts that are open, and closes the publisher, which waits for its answers
// at most until ctx ends.
func (b *Broker) Close(ctx context.Context) error {
	b.become(closed)
	over := make(chan struct{})
	go func() {
		b.calls.Wait()
		close(over)
	}()
	select {
	case <-over:
	case <-ctx.Done(): // every verdict comes at its own deadline all the same
	}
	return b.publisher.Close(ctx)
}

func (b *Broker) become(s brokerState) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if s > b.state {
		b.state = s
	}
}
