package platform

import (
	"context"
	"maps"
	"time"

	"github.com/backend-skeleton/relay/internal/brokers"
	"github.com/backend-skeleton/relay/internal/config"
	"github.com/backend-skeleton/relay/internal/consume"
	"github.com/backend-skeleton/relay/internal/publish"
	"github.com/backend-skeleton/relay/messaging"
	"github.com/backend-skeleton/relay/messaging/transport"
)

// Route is the handler of one type and version, made by [On], [OnManual], [OnBatch] or [OnRequest].
type Route struct {
	make func(p *Platform) (consume.Route, error)
}

func plain(r consume.Route) Route {
	return Route{make: func(*Platform) (consume.Route, error) { return r, nil }}
}

// On routes a type and version to a handler.
func On[T any](d messaging.Destination[T], h messaging.Handler[T]) Route {
	return plain(consume.On(d, h))
}

// OnManual routes to a handler that settles by itself; it needs the grant MANUAL_SETTLEMENT.
func OnManual[T any](d messaging.Destination[T], h messaging.ManualHandler[T]) Route {
	return plain(consume.OnManual(d, h))
}

// OnBatch routes to a handler of several deliveries, of one partition or of one key where keys run in parallel; it needs
// the grant BATCH_CONSUME and is the consumer's only route.
func OnBatch[T any](d messaging.Destination[T], h messaging.BatchHandler[T]) Route {
	return plain(consume.OnBatch(d, h))
}

// OnRequest routes requests to a function whose answer goes to the address that the request names, as a message of the
// type and version of answer that has the request as its cause. The request is settled once that publish is confirmed, so
// a copy of it is answered again. It needs the grant REQUEST_REPLY, and Options.Producer.
func OnRequest[Q, R any](d messaging.Destination[Q], answer messaging.Destination[R], h func(context.Context, messaging.Delivery[Q]) (R, error)) Route {
	return Route{make: func(p *Platform) (consume.Route, error) {
		r, err := p.responder(d.Name)
		if err != nil {
			return consume.Route{}, err
		}
		return consume.OnAnswer(d, h, func(ctx context.Context, in *consume.Incoming, value R) error {
			return respond(ctx, r, answer, in, value)
		}), nil
	}}
}

// responder publishes replies to the broker of a destination.
type responder struct {
	broker   *publish.Broker
	endpoint transport.Endpoint
	timeout  time.Duration
	rules    publish.Rules
}

func (p *Platform) responder(name messaging.DestinationName) (*responder, error) {
	const op = "consume requests"
	if p.o.Producer == "" {
		return nil, refused(op, messaging.ErrConfiguration, name, "Options.Producer names no service, and replies carry it")
	}
	resolved, ok := p.c.Resolved(string(name))
	if !ok {
		return nil, refused(op, messaging.ErrConfiguration, name, "messaging.destinations does not have it")
	}
	endpoint, err := brokers.Endpoint(resolved)
	if err != nil {
		return nil, refused(op, messaging.ErrConfiguration, name, "%w", err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	broker, err := p.publisher(p.broker(resolved.Broker))
	if err != nil {
		return nil, err
	}
	return &responder{broker: broker, endpoint: endpoint, timeout: resolved.Timeout, rules: publish.Rules{
		Producer: p.o.Producer, Codecs: p.codecs, Trace: p.o.Trace, Baggage: append([]string{}, p.c.Security.Baggage...),
	}}, nil
}

// respond publishes one reply. An address is a place of its own, so that it has a destination of its own.
func respond[R any](ctx context.Context, r *responder, answer messaging.Destination[R], in *consume.Incoming, value R) error {
	if in.Message.ReplyTo == "" {
		return messaging.NewFailure(messaging.CategoryValidation, messaging.CodeInvalidMessage, "the request names no address for its reply")
	}
	to := r.endpoint
	to.Name = answer.Name
	to.Physical = map[string]string{"reply-to": in.Message.ReplyTo}
	to.Producer = maps.Clone(to.Producer)
	p, err := publish.New(&publish.Destination{
		Name: answer.Name, Broker: r.broker, Endpoint: to, Timeout: r.timeout, Required: messaging.LevelBrokerAck, Rules: r.rules,
		Granted: func(g string) bool { return config.Grant(g) == config.RawBytes },
	}, answer)
	if err != nil {
		return err
	}
	e := answer.New(value)
	e.Causation = messaging.CausationID{MessageID: in.Fields.ID}
	e.Correlation, e.Tenant = in.Fields.Correlation, in.Fields.Tenant
	e.OccurredAt = time.Now()
	_, err = p.Publish(ctx, e, nil)
	return err
}
