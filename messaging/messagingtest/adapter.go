package messagingtest

import (
	"context"

	"github.com/backend-skeleton/relay/messaging"
	"github.com/backend-skeleton/relay/messaging/transport"
)

// Denial is why a broker refuses an adapter.
type Denial string

// The reasons to refuse.
const (
	BadCredential  Denial = "credential" // wrong name or password
	NoRight        Denial = "ACL"        // known, and not allowed to write or read
	BadCertificate Denial = "TLS"        // the handshake fails
)

func (d Denial) text() string {
	switch d {
	case BadCredential:
		return "the broker does not accept the credentials"
	case NoRight:
		return "no right to the place"
	default:
		return "the TLS handshake was refused"
	}
}

func (d Denial) kind() error {
	if d == NoRight {
		return messaging.ErrAuthorization
	}
	return messaging.ErrAuthentication
}

// adapter is one connection to a broker.
type adapter struct {
	b         *Broker
	denied    Denial
	closed    bool // under the broker's lock, as what follows
	consumers []*consumer
}

var (
	_ transport.Adapter = (*adapter)(nil)
	_ transport.Replier = (*adapter)(nil)
)

// Adapter connects to the broker. Every adapter is a connection of its own, with
// publishers and consumers of its own.
func (b *Broker) Adapter() transport.Adapter { return &adapter{b: b} }

// AdapterAs connects under an identity that the broker refuses for the reason.
func (b *Broker) AdapterAs(d Denial) transport.Adapter { return &adapter{b: b, denied: d} }

func (a *adapter) Capabilities(_ context.Context, e transport.Endpoint) (messaging.Capabilities, error) {
	a.b.mu.Lock()
	defer a.b.mu.Unlock()
	if err := a.refusal("capabilities", e); err != nil {
		return messaging.Capabilities{}, err
	}
	return a.b.able, nil
}

// refusal says why the broker does not talk about an endpoint.
func (a *adapter) refusal(op string, e transport.Endpoint) error {
	var kind error
	switch {
	case a.closed:
		kind = messaging.ErrClosed
	case a.denied != "":
		kind = a.denied.kind()
	case a.b.stands(Down, string(e.Name), a.b.placeOf(e)):
		kind = messaging.ErrBrokerUnavailable
	default:
		return nil
	}
	return &messaging.Error{Op: op, Kind: kind, Destination: e.Name}
}

func (a *adapter) Publisher(context.Context, []transport.Endpoint) (transport.Publisher, error) {
	a.b.mu.Lock()
	defer a.b.mu.Unlock()
	if a.closed {
		return nil, &messaging.Error{Op: "publisher", Kind: messaging.ErrClosed}
	}
	return &publisher{b: a.b, a: a}, nil
}

// Inspect finds places that were not declared, where any were.
func (a *adapter) Inspect(_ context.Context, want []transport.Endpoint) ([]transport.Drift, error) {
	a.b.mu.Lock()
	defer a.b.mu.Unlock()
	var found []transport.Drift
	for _, e := range want {
		if err := a.refusal("inspect", e); err != nil {
			return nil, err
		}
		name, topic := physical(e)
		field := "queue"
		if topic {
			field = "topic"
		}
		if a.b.settings.declared != nil && !a.b.settings.declared[name] {
			found = append(found, transport.Drift{Destination: e.Name, Field: field, Want: "present", Have: "absent"})
		}
	}
	return found, nil
}

// Close ends the adapter's consumers, too.
func (a *adapter) Close(ctx context.Context) error {
	a.b.mu.Lock()
	a.closed = true
	open := a.consumers
	a.consumers = nil
	a.b.mu.Unlock()
	for _, c := range open {
		if err := c.Close(ctx); err != nil {
			return err
		}
	}
	return nil
}
