package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/backend-skeleton/relay/internal/actuator"
	"github.com/backend-skeleton/relay/internal/cli"
	"github.com/backend-skeleton/relay/internal/config"
	"github.com/backend-skeleton/relay/internal/observe"
	"github.com/backend-skeleton/relay/internal/outbox"
	relaying "github.com/backend-skeleton/relay/internal/relay"
	"github.com/backend-skeleton/relay/messaging"
)

// process is one relay with all that stands around it: metrics, log, the actuator's listener.
type process struct {
	c        *config.Config
	bs       brokers
	log      *slog.Logger
	observer *observe.Observer
	relay    *relaying.Relay
	handler  http.Handler
}

// assemble puts the process together; nothing runs yet.
func assemble(c *config.Config, pool *pgxpool.Pool, bs brokers, log *slog.Logger) (*process, error) {
	p := &process{c: c, bs: bs, log: log}
	brokerOf := map[messaging.DestinationName]string{}
	for name, d := range c.Messaging.Destinations {
		brokerOf[messaging.DestinationName(name)] = d.Broker
	}
	var err error
	if p.observer, err = observe.New(observe.Config{Logger: log, Destinations: brokerOf, Version: build().Version}); err != nil {
		return nil, err
	}
	host, err := os.Hostname()
	if err != nil {
		host = "relay"
	}
	store := outbox.New(pool, outbox.Config{Name: host, Version: build().Version, LeaseTTL: c.Relay.Lease.Std()})
	rc, err := relayConfig(c, bs, store)
	if err != nil {
		return nil, err
	}
	rc.Hooks, rc.Logger, rc.Wake = hooks(p.observer), log, wakeUps(c, pool)
	if p.relay, err = relaying.New(rc); err != nil {
		return nil, cli.Fail(cli.Refused, "%w", err)
	}
	known := health{relay: p.relay, born: time.Now()}
	for _, d := range rc.Destinations {
		known.served = append(known.served, d.Name)
	}
	p.handler, err = actuator.New(actuator.Config{
		Stats: stats{store}, Storage: storage{store, c.Relay.Retention.Published.Std()}, Health: known, Observer: p.observer, Version: build().Version,
	})
	return p, err
}

// run serves the actuator and runs the relay until ctx ends, or until nothing is left to publish.
func (p *process) run(ctx context.Context, o runOptions) error {
	var listen net.ListenConfig
	listener, err := listen.Listen(ctx, "tcp", p.c.HTTP.Listen)
	if err != nil {
		return cli.Fail(cli.Failed, "http.listen: %w", err)
	}
	p.log.Info("relay starts", "version", build().Version, "environment", p.c.Messaging.Environment, "listen", listener.Addr().String(),
		"destinations", len(p.c.Served()), "brokers", p.bs.names(), "wakeUp", p.wakeUpText())
	serving, stopServing := context.WithCancel(context.WithoutCancel(ctx))
	var around sync.WaitGroup
	around.Go(func() { p.observer.Run(serving) })
	around.Go(func() {
		if err := actuator.Serve(serving, listener, p.handler, p.log); err != nil {
			p.log.Error("the actuator ended", "error", err)
		}
	})
	err = p.relayRows(ctx, o)
	stopServing()
	around.Wait()
	return err
}

// relayRows asks the brokers for their proof and publishes. A stop that was asked for is no error.
func (p *process) relayRows(ctx context.Context, o runOptions) error {
	limited := ctx
	if o.untilEmpty { // a broker that cannot be asked is waited for no longer than one that is down
		var cancel context.CancelFunc
		limited, cancel = context.WithTimeoutCause(ctx, o.timeout, relaying.ErrRowsLeft)
		defer cancel()
	}
	begin := time.Now()
	err := (proof{c: p.c, bs: p.bs, log: p.log}).run(limited)
	if err == nil {
		if o.untilEmpty {
			err = p.relay.RunUntilEmpty(ctx, max(o.timeout-time.Since(begin), time.Millisecond))
		} else {
			err = p.relay.Run(ctx)
		}
	}
	switch {
	case errors.Is(err, relaying.ErrRowsLeft):
		return cli.Fail(cli.Found, "%w", err)
	case errors.Is(err, context.Canceled) && ctx.Err() != nil:
		return nil
	case err != nil:
		return fmt.Errorf("run: %w", err)
	}
	p.log.Info("relay ended")
	return nil
}

func (p *process) wakeUpText() string {
	switch {
	case p.c.Relay.WakeUp == config.WakeUpOff:
		return "off"
	case p.c.Database.Pooler == config.PoolerTransaction:
		return "off behind a pooler in transaction mode"
	case p.c.Database.PoolMax == 1:
		return "off with one connection"
	}
	return "by notification"
}
