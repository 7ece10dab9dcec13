package rabbitmq

import (
	"context"
	"errors"
	"fmt"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/backend-skeleton/relay/messaging"
	"github.com/backend-skeleton/relay/messaging/transport"
)

// Inspect asks the broker whether exchange and, where one is named, queue of each
// endpoint exist, by passive declares on channels of their own. It also serves as
// the harmless question of a half-open breaker: an error says that the broker
// does not answer or refuses the identity, a drift that the destination is
// missing. It takes at most [Config.InspectTimeout]; while the broker blocks the
// connection it answers [messaging.ErrBackpressure] at once.
func (a *Adapter) Inspect(ctx context.Context, want []transport.Endpoint) ([]transport.Drift, error) {
	const op = "inspect"
	ctx, cancel := context.WithTimeout(ctx, a.cfg.InspectTimeout)
	defer cancel()
	l, err := a.connect()
	if err != nil {
		return nil, &messaging.Error{Op: op, Kind: messaging.ErrClosed, Cause: err}
	}
	// One at a time: a question without answer keeps its channel until the
	// connection ends.
	select {
	case a.probe <- struct{}{}:
	case <-ctx.Done():
		return nil, &messaging.Error{Op: op, Kind: messaging.ErrBrokerUnavailable, Cause: ctx.Err()}
	}
	defer func() { <-a.probe }()

	var drifts []transport.Drift
	for _, e := range want {
		r, err := parseRoute(e)
		if err != nil {
			return nil, &messaging.Error{Op: op, Destination: e.Name, Kind: messaging.ErrConfiguration, Cause: err}
		}
		found, err := l.inspect(ctx, r)
		if err != nil {
			return nil, err
		}
		drifts = append(drifts, found...)
	}
	return drifts, nil
}

// inspect asks for one endpoint.
func (l *link) inspect(ctx context.Context, r *route) ([]transport.Drift, error) {
	var drifts []transport.Drift
	ask := []struct {
		field, name string
		declare     func(*amqp.Channel) error
	}{
		{physicalExchange, r.exchange, func(c *amqp.Channel) error {
			return c.ExchangeDeclarePassive(r.exchange, amqp.ExchangeDirect, true, false, false, false, nil)
		}},
		{physicalQueue, r.queue, func(c *amqp.Channel) error {
			_, err := c.QueueDeclarePassive(r.queue, true, false, false, false, nil)
			return err
		}},
	}
	for i, a := range ask {
		if a.name == "" && (i > 0 || r.queue != "") {
			continue // the default exchange always exists; with nothing to ask for, a channel is question enough
		}
		declare := a.declare
		if a.name == "" {
			declare = func(*amqp.Channel) error { return nil }
		}
		present, err := l.ask(ctx, r.destination, declare)
		if a.field == physicalQueue && errors.Is(err, messaging.ErrAuthorization) {
			continue // a producer need not see the queue; a return will tell if it is missing
		}
		if err != nil {
			return nil, err
		}
		if !present {
			drifts = append(drifts, transport.Drift{Destination: r.destination, Field: a.field, Want: "present", Have: "absent"})
		}
	}
	return drifts, nil
}

// ask opens a channel for one passive declare.
func (l *link) ask(ctx context.Context, d messaging.DestinationName, declare func(*amqp.Channel) error) (present bool, err error) {
	wrong := func(kind error, f *messaging.Failure, cause error) (bool, error) {
		return false, &messaging.Error{Op: "inspect", Destination: d, Kind: kind, Failure: f, Cause: cause}
	}
	s, failure := l.fresh(ctx)
	if failure != nil {
		return wrong(kind(failure), failure, nil)
	}
	if s.blocked.Load() {
		return wrong(messaging.ErrBackpressure, failBlocked, nil)
	}
	err = s.do(ctx, func() error {
		c, err := s.conn.Channel()
		if err != nil {
			return err
		}
		if err := declare(c); err != nil {
			return err
		}
		return c.Close()
	})
	var said *amqp.Error
	switch {
	case err == nil:
		return true, nil
	case errors.As(err, &said) && channelException(said):
		switch said.Code {
		case amqp.NotFound:
			return false, nil
		case amqp.AccessRefused:
			return wrong(messaging.ErrAuthorization, failNotAllowed, nil)
		case amqp.ResourceLocked: // an exclusive queue of somebody else: it is there
			return true, nil
		}
		return wrong(messaging.ErrBrokerUnavailable, nil, fmt.Errorf("reply code %d", said.Code))
	case ctx.Err() != nil:
		return wrong(messaging.ErrBrokerUnavailable, nil, ctx.Err())
	default:
		return wrong(messaging.ErrBrokerUnavailable, failUnreachable, nil)
	}
}
