package kafka

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/backend-skeleton/relay/messaging"
	"github.com/backend-skeleton/relay/messaging/transport"
)

// Adapter is one Kafka cluster under one identity.
type Adapter struct {
	conf   Config
	log    *slog.Logger
	client *kgo.Client
	writes writeWatch

	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	work   sync.WaitGroup // metadata fetches and the evidence loop

	mu     sync.Mutex
	topics map[string]*topic
	closed bool
}

var _ transport.Adapter = (*Adapter)(nil)

// New makes an adapter. It dials nothing, so a broker that is down is no error; an
// unusable configuration is, as [messaging.ErrConfiguration].
func New(c Config) (*Adapter, error) {
	if err := c.validate(); err != nil {
		return nil, err
	}
	c = c.withDefaults()
	a := &Adapter{conf: c, log: c.Logger.With("broker", c.Name), topics: map[string]*topic{}}
	client, err := newClient(c, &a.writes)
	if err != nil {
		return nil, err
	}
	a.client = client
	a.ctx, a.cancel = context.WithCancel(context.Background())
	a.work.Go(a.keepEvidence)
	return a, nil
}

// Publisher makes a publisher with a producer session of its own. It returns at
// once and asks for the endpoints' topics in the background.
func (a *Adapter) Publisher(_ context.Context, es []transport.Endpoint) (transport.Publisher, error) {
	for _, e := range es {
		if _, err := settingsOf(e); err != nil {
			return nil, err
		}
	}
	p := newPublisher(a)
	for _, e := range es {
		if t := a.topic(e.Physical["topic"]); t != nil {
			t.refresh()
		}
	}
	return p, nil
}

// Subscribe is not built yet.
func (a *Adapter) Subscribe(_ context.Context, s transport.Subscription, _ transport.Sink) (transport.Consumer, error) {
	return nil, &messaging.Error{Op: "kafka subscribe", Kind: messaging.ErrCapabilityUnavailable, Destination: s.Endpoint.Name}
}

// Close ends every connection and waits for the adapter's goroutines, at most until
// ctx ends. Publishers are closed before it.
func (a *Adapter) Close(ctx context.Context) error {
	a.mu.Lock()
	a.closed = true
	a.mu.Unlock()
	a.cancel()
	return waitUntil(ctx, func() {
		a.client.Close()
		a.work.Wait()
	})
}

// topic gives the shared knowledge about a topic; nil once the adapter is closed.
func (a *Adapter) topic(name string) *topic {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return nil
	}
	t := a.topics[name]
	if t == nil {
		t = &topic{adapter: a, name: name}
		a.topics[name] = t
	}
	return t
}

// spawn runs f as one of the adapter's goroutines, unless it is closed.
func (a *Adapter) spawn(f func()) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return false
	}
	a.work.Go(f)
	return true
}

// pause waits for d or the end of ctx; false is the latter.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// waitUntil runs f to its end, and returns earlier with ctx's error if that ends
// first; f goes on then.
func waitUntil(ctx context.Context, f func()) error {
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
