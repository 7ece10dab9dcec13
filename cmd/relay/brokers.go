package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/backend-skeleton/relay/internal/adapters/kafka"
	"github.com/backend-skeleton/relay/internal/adapters/rabbitmq"
	"github.com/backend-skeleton/relay/internal/cli"
	"github.com/backend-skeleton/relay/internal/config"
	"github.com/backend-skeleton/relay/messaging"
	"github.com/backend-skeleton/relay/messaging/transport"
)

// adapters make the edge of a broker by its kind. They dial nothing yet.
var adapters = map[config.BrokerKind]func(*config.Config, string, *slog.Logger) (transport.Adapter, error){
	config.Kafka:    newKafka,
	config.RabbitMQ: newRabbit,
}

// closeTimeout bounds the farewell to one broker.
const closeTimeout = 5 * time.Second

// brokers are the adapters of the served destinations, by the broker's name.
type brokers map[string]transport.Adapter

func openBrokers(c *config.Config, log *slog.Logger) (brokers, error) {
	out := brokers{}
	for _, d := range c.Served() {
		if out[d.Broker] != nil {
			continue
		}
		a, err := adapters[d.BrokerKind](c, d.Broker, log)
		if err != nil {
			return nil, errors.Join(cli.Fail(cli.Refused, "broker %s: %w", d.Broker, err), out.close())
		}
		out[d.Broker] = a
	}
	return out, nil
}

// names lists the brokers in one order.
func (bs brokers) names() []string {
	var out []string
	for name := range bs {
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}

func (bs brokers) close() error {
	var errs []error
	for _, name := range bs.names() {
		ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
		if err := bs[name].Close(ctx); err != nil {
			errs = append(errs, fmt.Errorf("close broker %s: %w", name, err))
		}
		cancel()
	}
	return errors.Join(errs...)
}

func newKafka(c *config.Config, name string, log *slog.Logger) (transport.Adapter, error) {
	b := c.Messaging.Brokers[name]
	secure, err := c.TLSConfig(b.TLS)
	if err != nil {
		return nil, err
	}
	k := kafka.Config{Name: name, Seeds: b.Seeds, TLS: secure, Logger: log, ProducerInFlight: c.ProducerInFlight()}
	if cred, ok := c.Security.Credentials[b.ProducerIdentity]; ok && cred.Mechanism != config.External {
		k.Credentials = kafka.Credentials{Mechanism: string(cred.Mechanism), Username: cred.Username, Password: password(cred)}
	}
	return kafka.New(k)
}

func newRabbit(c *config.Config, name string, log *slog.Logger) (transport.Adapter, error) {
	b := c.Messaging.Brokers[name]
	secure, err := c.TLSConfig(b.TLS)
	if err != nil {
		return nil, err
	}
	r := rabbitmq.Config{
		Name: name, Seeds: b.Seeds, VHost: b.VHost, TLS: secure, Logger: log,
		ProducerInFlight: c.ProducerInFlight(),
	}
	if cred, ok := c.Security.Credentials[b.ProducerIdentity]; ok {
		r.Credentials = rabbitmq.Credentials{Mechanism: string(cred.Mechanism), Username: cred.Username}
		if cred.Mechanism != config.External {
			r.Credentials.Password = password(cred)
		}
	}
	if m := b.Management; m != nil {
		cred := c.Security.Credentials[m.Identity]
		r.Management = rabbitmq.Management{URL: m.URL, Username: cred.Username, Password: password(cred)}
		if r.Management.TLS, err = c.TLSConfig(m.TLS); err != nil {
			return nil, err
		}
	}
	return rabbitmq.New(r)
}

// password is asked at every connect, so that a rotated one is used without restart.
func password(c config.Credential) func(context.Context) (string, error) {
	return func(context.Context) (string, error) { return c.Password.Resolve() }
}

// endpoint is the part of a destination that its broker needs.
func endpoint(d config.Served) (transport.Endpoint, error) {
	level, err := messaging.ParseConfirmationLevel(string(d.Confirmation))
	if err != nil {
		return transport.Endpoint{}, err
	}
	e := transport.Endpoint{Name: messaging.DestinationName(d.Name), Physical: d.Physical, Producer: map[string]any{
		"timeout": d.Timeout, "abandon-after": d.AbandonAfter, "confirmation": level,
	}}
	switch d.BrokerKind {
	case config.Kafka:
		e.Producer["request-timeout"], e.Producer["delivery-timeout"] = d.RequestTimeout, d.DeliveryTimeout
	case config.RabbitMQ:
		e.Producer["mandatory-routing"] = true
	}
	return e, nil
}

// served are the endpoints of the served destinations of one broker.
func served(c *config.Config, broker string) ([]transport.Endpoint, error) {
	var out []transport.Endpoint
	for _, d := range c.Served() {
		if d.Broker != broker {
			continue
		}
		e, err := endpoint(d)
		if err != nil {
			return nil, err
		}
		out = append(out, e)
	}
	return out, nil
}
