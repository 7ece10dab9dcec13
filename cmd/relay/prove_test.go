package main

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/backend-skeleton/relay/internal/cli"
	"github.com/backend-skeleton/relay/internal/config"
	"github.com/backend-skeleton/relay/messaging"
	"github.com/backend-skeleton/relay/messaging/transport"
)

// oracle is an adapter that only answers what it can prove: the first answers are errors.
type oracle struct {
	transport.Adapter
	errs  []error
	proof bool
	asked int
}

func (o *oracle) Capabilities(context.Context, transport.Endpoint) (messaging.Capabilities, error) {
	o.asked++
	if o.asked <= len(o.errs) {
		return messaging.Capabilities{}, o.errs[o.asked-1]
	}
	return messaging.Capabilities{BrokerAcknowledgement: true, ReplicationOrPersistenceEvidence: o.proof}, nil
}

func proving(environment config.Environment, confirmation config.Confirmation, o *oracle, log *strings.Builder) proof {
	c := &config.Config{}
	c.Messaging.Environment = environment
	c.Relay.Serve = []string{"*"}
	c.Messaging.Brokers = map[string]config.Broker{"kafka": {Kind: config.Kafka}}
	c.Messaging.Destinations = map[string]config.Destination{"orders": {
		Broker: "kafka", Physical: config.Physical{Topic: "t"}, Producer: config.Producer{Confirmation: confirmation, Timeout: config.Duration(time.Second)},
	}}
	return proof{c: c, bs: brokers{"kafka": o}, log: slog.New(slog.NewTextHandler(log, nil))}
}

func TestProofAtStart(t *testing.T) {
	t.Parallel()
	down := &messaging.Error{Op: "ask", Kind: messaging.ErrBrokerUnavailable}
	absent := &messaging.Error{Op: "ask", Kind: messaging.ErrTopology}
	for name, c := range map[string]struct {
		environment  config.Environment
		confirmation config.Confirmation
		oracle       oracle
		code         cli.Code
		asked        int
		said         string
	}{
		"proved":                          {config.Production, config.ReplicationOrPersistenceAck, oracle{proof: true}, cli.Done, 1, ""},
		"not provable":                    {config.Production, config.ReplicationOrPersistenceAck, oracle{}, cli.Refused, 1, ""},
		"not provable here":               {config.Local, config.ReplicationOrPersistenceAck, oracle{}, cli.Refused, 1, ""},
		"an acknowledgement is enough":    {config.Local, config.BrokerAck, oracle{}, cli.Done, 0, ""},
		"production waits":                {config.Production, config.ReplicationOrPersistenceAck, oracle{errs: []error{down, down, down}, proof: true}, cli.Done, 4, "waiting for the broker"},
		"waited for and not provable":     {config.Staging, config.ReplicationOrPersistenceAck, oracle{errs: []error{down}}, cli.Refused, 2, "waiting for the broker"},
		"local does not wait":             {config.Local, config.ReplicationOrPersistenceAck, oracle{errs: []error{down}, proof: true}, cli.Done, 1, "not proved at start"},
		"a missing topic stops no others": {config.Production, config.ReplicationOrPersistenceAck, oracle{errs: []error{absent}}, cli.Done, 1, "does not exist on the broker"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { // so that waiting costs no time
				var log strings.Builder
				err := proving(c.environment, c.confirmation, &c.oracle, &log).run(t.Context())
				if cli.CodeOf(err) != c.code || c.oracle.asked != c.asked || !strings.Contains(log.String(), c.said) {
					t.Errorf("%v after %d questions, said %s", err, c.oracle.asked, log.String())
				}
				if c.code == cli.Refused && !strings.Contains(err.Error(), "orders") {
					t.Errorf("the destination is not named: %v", err)
				}
			})
		})
	}
}

// A stop ends the wait for a broker.
func TestProofIsStopped(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		errs := make([]error, 10_000)
		for i := range errs {
			errs[i] = messaging.ErrBrokerUnavailable
		}
		o := &oracle{errs: errs}
		err := proving(config.Production, config.ReplicationOrPersistenceAck, o, &strings.Builder{}).run(ctx)
		if !errors.Is(err, context.DeadlineExceeded) || o.asked < 300 || o.asked > 500 {
			t.Errorf("%v after %d questions", err, o.asked)
		}
	})
}
