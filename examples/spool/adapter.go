package spool

import (
	"context"
	"sync"

	"github.com/backend-skeleton/relay/messaging"
	"github.com/backend-skeleton/relay/messaging/transport"
)

// Adapter is one client of the spool.
type Adapter struct {
	spool    *Spool
	readOnly bool

	mu        sync.Mutex // guards what follows
	closed    bool
	consumers []*consumer
}

var _ transport.Adapter = (*Adapter)(nil)

// NewAdapter makes a client. One that is readOnly may not publish.
func NewAdapter(s *Spool, readOnly bool) *Adapter { return &Adapter{spool: s, readOnly: readOnly} }

// able is what a directory can do: it answers, the answer means that the message is on the disk, and messages are settled
// one by one. Consumers share a place, so there is no order to promise.
var able = messaging.Capabilities{
	BrokerAcknowledgement: true, ReplicationOrPersistenceEvidence: true, PerMessageSettlement: true, DelayedDelivery: true,
}

// Capabilities are the same for every place that exists.
func (a *Adapter) Capabilities(_ context.Context, e transport.Endpoint) (messaging.Capabilities, error) {
	if a.spool.has(queueOf(e)) {
		return able, nil
	}
	return messaging.Capabilities{}, &messaging.Error{Op: "capabilities", Kind: messaging.ErrConfiguration, Destination: e.Name, Cause: errNoPlace}
}

// Inspect names the places that are not there.
func (a *Adapter) Inspect(_ context.Context, want []transport.Endpoint) (drifts []transport.Drift, err error) {
	for _, e := range want {
		if !a.spool.has(queueOf(e)) {
			drifts = append(drifts, transport.Drift{Destination: e.Name, Field: "queue", Want: "present", Have: "absent"})
		}
	}
	return drifts, nil
}

// Publisher serves every endpoint.
func (a *Adapter) Publisher(context.Context, []transport.Endpoint) (transport.Publisher, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return nil, &messaging.Error{Op: "publisher", Kind: messaging.ErrClosed}
	}
	return &publisher{adapter: a}, nil
}

// Subscribe begins to deliver. Extra endpoints are retry stages of the platform's, which need no stage here: the spool delays.
func (a *Adapter) Subscribe(_ context.Context, sub transport.Subscription, sink transport.Sink) (transport.Consumer, error) {
	name := queueOf(sub.Endpoint)
	if !a.spool.has(name) {
		return nil, &messaging.Error{Op: "subscribe", Kind: messaging.ErrConfiguration, Destination: sub.Endpoint.Name, Cause: errNoPlace}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return nil, &messaging.Error{Op: "subscribe", Kind: messaging.ErrClosed, Destination: sub.Endpoint.Name}
	}
	c := newConsumer(a.spool, name, sub, sink)
	a.consumers = append(a.consumers, c)
	return c, nil
}

// Close ends what is still open.
func (a *Adapter) Close(ctx context.Context) error {
	a.mu.Lock()
	a.closed = true
	open := a.consumers
	a.consumers = nil
	a.mu.Unlock()
	for _, c := range open {
		if err := c.Close(ctx); err != nil {
			return err
		}
	}
	return nil
}

// queueOf is the endpoint's place, the field "queue" of its profile.
func queueOf(e transport.Endpoint) string { return e.Physical["queue"] }

func (s *Spool) has(name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.places[name] != nil
}
