package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	edges "github.com/backend-skeleton/relay/internal/brokers"
	"github.com/backend-skeleton/relay/internal/cli"
	"github.com/backend-skeleton/relay/internal/config"
	"github.com/backend-skeleton/relay/messaging/transport"
)

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
		a, err := edges.Open(c, d.Broker, edges.Producer, log)
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

// served are the endpoints of the served destinations of one broker.
func served(c *config.Config, broker string) ([]transport.Endpoint, error) {
	var out []transport.Endpoint
	for _, d := range c.Served() {
		if d.Broker != broker {
			continue
		}
		e, err := edges.Endpoint(d)
		if err != nil {
			return nil, err
		}
		out = append(out, e)
	}
	return out, nil
}
