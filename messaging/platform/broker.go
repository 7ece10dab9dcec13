package platform

import (
	"context"
	"errors"
	"log/slog"
	"sync"

	"github.com/backend-skeleton/relay/internal/brokers"
	"github.com/backend-skeleton/relay/internal/config"
	"github.com/backend-skeleton/relay/internal/publish"
	"github.com/backend-skeleton/relay/messaging"
	"github.com/backend-skeleton/relay/messaging/transport"
)

// broker is one broker of the file in use.
type broker struct {
	name string
	// producer and consumer are its adapters, one per identity; nil until the first use.
	producer, consumer transport.Adapter
	edge               *edge
	publishing         *publish.Broker
}

// broker gives a broker of the file. The caller holds p.mu.
func (p *Platform) broker(name string) *broker {
	b := p.brokers[name]
	if b == nil {
		b = &broker{name: name}
		p.brokers[name] = b
	}
	return b
}

// adapter makes the adapter of a broker for a role, once. The caller holds p.mu.
func (p *Platform) adapter(b *broker, role brokers.Role) (transport.Adapter, error) {
	at := &b.producer
	if role == brokers.Consumer {
		at = &b.consumer
	}
	if *at != nil {
		return *at, nil
	}
	if err := p.c.ReadyBroker(b.name, role == brokers.Consumer); err != nil {
		return nil, configError(err)
	}
	entry := p.c.Messaging.Brokers[b.name]
	newAdapter, own := p.o.Adapters[string(entry.Kind)]
	var made transport.Adapter
	var err error
	if own {
		var settings map[string]any
		if settings, err = p.settings(b.name, entry, role); err == nil {
			made, err = newAdapter(p.living, settings)
		}
	} else {
		made, err = brokers.Open(p.c, b.name, role, p.log)
	}
	if err != nil {
		return nil, refused("open broker "+b.name, messaging.ErrConfiguration, "", "%w", err)
	}
	*at = made
	return made, nil
}

// settings are a broker's entry as an adapter from outside sees it.
func (p *Platform) settings(name string, b config.Broker, role brokers.Role) (map[string]any, error) {
	secure, err := p.c.TLSConfig(b.TLS)
	if err != nil {
		return nil, err
	}
	out := map[string]any{"name": name, "kind": string(b.Kind), "seeds": b.Seeds, "vhost": b.VHost, "role": role.String(), "tls": secure}
	if cred, ok := p.c.Security.Credentials[b.Identity(role == brokers.Consumer)]; ok {
		out["username"] = cred.Username
		out["password"] = func(context.Context) (string, error) { return cred.Password.Resolve() }
	}
	return out, nil
}

// publisher gives the broker's side of publishing. The caller holds p.mu.
func (p *Platform) publisher(b *broker) (*publish.Broker, error) {
	if b.publishing != nil {
		return b.publishing, nil
	}
	a, err := p.adapter(b, brokers.Producer)
	if err != nil {
		return nil, err
	}
	b.edge = &edge{ctx: p.living, adapter: a, log: p.log, open: map[messaging.DestinationName]transport.Publisher{}}
	b.publishing = publish.NewBroker(b.name, b.edge, p.c.ProducerInFlight(), p.hooks)
	return b.publishing, nil
}

// edge is the publisher of one broker, which the adapter opens at the first message, for every destination that was asked
// for until then: a constructor connects nothing. A destination that comes later gets a publisher of its own.
type edge struct {
	ctx     context.Context
	adapter transport.Adapter
	log     *slog.Logger

	mu     sync.Mutex // guards what follows
	wanted []transport.Endpoint
	open   map[messaging.DestinationName]transport.Publisher
	all    []transport.Publisher
	closed bool
}

var (
	_ transport.Publisher   = (*edge)(nil)
	_ transport.KeyPrefixer = (*edge)(nil)
	_ transport.Hinter      = (*edge)(nil)
)

// want registers a destination.
func (e *edge) want(to transport.Endpoint) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.wanted = append(e.wanted, to)
}

func (e *edge) publisher(to transport.Endpoint) (transport.Publisher, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if p := e.open[to.Name]; p != nil {
		return p, nil
	}
	if e.closed {
		return nil, messaging.ErrClosed
	}
	all := e.wanted
	if len(all) == 0 { // an address that no profile names, such as a requester's
		all = []transport.Endpoint{to}
	}
	p, err := e.adapter.Publisher(e.ctx, all)
	if err != nil {
		return nil, err
	}
	for _, w := range all {
		e.open[w.Name] = p
	}
	e.wanted, e.all = nil, append(e.all, p)
	return p, nil
}

// Publish opens the publisher and hands over.
func (e *edge) Publish(ctx context.Context, to transport.Endpoint, ms []transport.Message, done func(int, messaging.PublishResult)) {
	p, err := e.publisher(to)
	if err != nil {
		f := messaging.NewFailure(messaging.CategoryConfiguration, messaging.CodeBrokerConfiguration, "the adapter refuses the destination")
		if errors.Is(err, messaging.ErrClosed) {
			f = messaging.NewFailure(messaging.CategoryTransientInfrastructure, messaging.CodeClosed, "the platform is closed for publishes")
		} else {
			e.log.Error("the adapter refuses a destination", "destination", to.Name, "error", err)
		}
		for i := range ms {
			done(i, messaging.RejectedLocally(f))
		}
		return
	}
	p.Publish(ctx, to, ms, done)
}

// KeyPrefix is the adapter's word.
func (e *edge) KeyPrefix(to transport.Endpoint) bool {
	p, err := e.publisher(to)
	if err != nil {
		return false
	}
	k, ok := p.(transport.KeyPrefixer)
	return ok && k.KeyPrefix(to)
}

// Hint is the adapter's word.
func (e *edge) Hint(to transport.Endpoint, m *transport.Message, h messaging.Hint) error {
	p, err := e.publisher(to)
	if err != nil {
		return err
	}
	if hinter, ok := p.(transport.Hinter); ok {
		return hinter.Hint(to, m, h)
	}
	return refused("hint", messaging.ErrCapabilityUnavailable, to.Name, "the adapter knows no hints")
}

// Close closes what was opened.
func (e *edge) Close(ctx context.Context) error {
	e.mu.Lock()
	e.closed = true
	all := e.all
	e.mu.Unlock()
	return closeAll(ctx, all)
}
