package rabbitmq

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/backend-skeleton/relay/messaging"
	"github.com/backend-skeleton/relay/messaging/transport"
)

// Adapter is one RabbitMQ broker under one identity. It is safe for concurrent
// use.
type Adapter struct {
	cfg        Config
	log        *slog.Logger
	management *management
	proofs     proofs

	mu         sync.Mutex
	link       *link // made by the first who needs a connection
	closed     bool
	publishers map[*Publisher]struct{}
	probe      chan struct{} // held by the one who inspects
}

var _ transport.Adapter = (*Adapter)(nil)

// New checks the configuration; every broken rule is in the error, an
// [messaging.ErrConfiguration]. It dials nothing.
func New(c Config) (*Adapter, error) {
	c = c.withDefaults()
	if err := c.validate(); err != nil {
		return nil, err
	}
	return &Adapter{
		cfg: c, log: c.Logger.With("broker", c.Name), management: newManagement(&c),
		publishers: map[*Publisher]struct{}{}, probe: make(chan struct{}, 1),
	}, nil
}

// Capabilities asks the management API for the queues behind the endpoint.
// Without one nothing is proved. An error says that it could not be asked and
// never was; later the last proof stands.
func (a *Adapter) Capabilities(ctx context.Context, e transport.Endpoint) (messaging.Capabilities, error) {
	r, err := parseRoute(e)
	if err != nil {
		return messaging.Capabilities{}, err
	}
	has := messaging.Capabilities{BrokerAcknowledgement: true, PerMessageSettlement: true, KeyedOrdering: true}
	if a.management == nil {
		return has, nil
	}
	if err := a.look(ctx, r); err != nil {
		if _, known := a.proofs.last(r.proofKey()); !known {
			return has, fmt.Errorf("capabilities of %s: %w", e.Name, err)
		}
		a.log.Warn("queue types not seen, the last proof stands", "destination", e.Name, "error", err)
	}
	has.ReplicationOrPersistenceEvidence = a.evidence(r)
	return has, nil
}

// evidence tells whether a confirm proves that the message is in quorum queues.
// Only of a mandatory message does it prove that it is in a queue at all.
func (a *Adapter) evidence(r *route) bool {
	seen, _ := a.proofs.last(r.proofKey())
	return seen.durable && r.mandatory
}

// look asks the management API once and keeps what it says.
func (a *Adapter) look(ctx context.Context, r *route) error {
	seen, err := a.management.look(ctx, r.proofKey())
	if err != nil {
		return err
	}
	a.proofs.keep(r.proofKey(), seen)
	return nil
}

// Publisher serves the endpoints; others are served, too, but nothing is proved
// about their queues. It connects in the background. The error is a
// [messaging.ErrConfiguration] or [messaging.ErrClosed].
func (a *Adapter) Publisher(_ context.Context, es []transport.Endpoint) (transport.Publisher, error) {
	var routes []*route
	var errs []error
	for _, e := range es {
		r, err := parseRoute(e)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		routes = append(routes, r)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	if _, err := a.connect(); err != nil {
		return nil, err
	}
	p := newPublisher(a)
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return nil, a.closedError()
	}
	a.publishers[p] = struct{}{}
	if a.management != nil {
		p.start(func(ctx context.Context) { a.keepLooking(ctx, routes) })
	}
	return p, nil
}

// firstLook is the pause while nothing was ever seen.
const firstLook = 15 * time.Second

// keepLooking renews the proofs until the publisher is closed.
func (a *Adapter) keepLooking(ctx context.Context, routes []*route) {
	for {
		pause := a.cfg.ProofEvery
		for _, r := range routes {
			err := a.look(ctx, r)
			if ctx.Err() != nil {
				return
			}
			if err != nil {
				if _, known := a.proofs.last(r.proofKey()); !known {
					pause = min(pause, firstLook)
				}
				a.log.Warn("queue types not seen", "destination", r.destination, "error", err)
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
	}
}

// Subscribe is not available yet.
func (a *Adapter) Subscribe(context.Context, transport.Subscription, transport.Sink) (transport.Consumer, error) {
	return nil, fmt.Errorf("subscribe to rabbitmq broker %s: %w", a.cfg.Name, messaging.ErrCapabilityUnavailable)
}

// Blocked tells whether the broker asked to stop publishing, because it is short
// of memory or disk. Nothing is sent while it lasts.
func (a *Adapter) Blocked() bool {
	a.mu.Lock()
	l := a.link
	a.mu.Unlock()
	return l != nil && l.blocked()
}

// Close ends the connection, and every publisher that is still open, at most
// until ctx ends or [Config.CloseTimeout] is over; then the TCP connection is
// dropped.
func (a *Adapter) Close(ctx context.Context) error {
	a.mu.Lock()
	a.closed = true
	open := make([]*Publisher, 0, len(a.publishers))
	for p := range a.publishers {
		open = append(open, p)
	}
	l := a.link
	a.mu.Unlock()
	bounded, cancel := context.WithTimeout(ctx, a.cfg.CloseTimeout)
	defer cancel()
	var closing sync.WaitGroup
	for _, p := range open {
		closing.Go(func() { _ = p.Close(bounded) })
	}
	closing.Wait()
	if l != nil {
		grace := a.cfg.CloseTimeout
		if deadline, ok := ctx.Deadline(); ok {
			grace = min(grace, time.Until(deadline))
		}
		if ctx.Err() != nil {
			grace = 0
		}
		l.close(grace)
	}
	a.management.close()
	return nil
}

// connect makes the link, once.
func (a *Adapter) connect() (*link, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return nil, a.closedError()
	}
	if a.link == nil {
		a.link = newLink(&a.cfg)
	}
	return a.link, nil
}

func (a *Adapter) closedError() error {
	return fmt.Errorf("rabbitmq broker %s: %w", a.cfg.Name, messaging.ErrClosed)
}

// forget drops a publisher that is closed.
func (a *Adapter) forget(p *Publisher) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.publishers, p)
}
