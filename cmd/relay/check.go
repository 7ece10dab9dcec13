package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/backend-skeleton/relay/internal/cli"
	"github.com/backend-skeleton/relay/internal/config"
	"github.com/backend-skeleton/relay/messaging"
	"github.com/backend-skeleton/relay/messaging/transport"
)

// checkTimeout bounds the questions to one broker.
const checkTimeout = 20 * time.Second

func newCheckCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "check", Short: "Check configuration, database, brokers and destinations", Args: cli.NoArgs,
		Long: `Check the file as 'relay config check' does, fetch the secrets that a relay needs, then ask the database for its schema,
every served broker for an answer, and every served destination: is its topic, exchange and queue there, and can the
broker prove the confirmation that the file asks for? Nothing is changed and nothing is published. Everything is asked
before the verdict.

Exit codes: 0 all is well; 2 usage; 3 the configuration is refused; 4 the database cannot be reached or its schema does
not fit; 5 a broker cannot be reached or refuses the identity; 6 a destination is missing or cannot prove enough.`,
	}
	file, output := addFile(cmd), cli.AddOutput(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		c, err := file.load(cmd)
		if err != nil {
			return err
		}
		if err := c.Ready(file.path()); err != nil {
			return err
		}
		bs, err := openBrokers(c, slog.New(slog.DiscardHandler))
		if err != nil {
			return err
		}
		answers := append([]answer{askDatabase(cmd.Context(), c)}, askBrokers(cmd.Context(), c, bs)...)
		if err := bs.close(); err != nil {
			answers = append(answers, answer{Subject: "close", code: cli.Failed, State: err.Error()})
		}
		return verdict(cmd.OutOrStdout(), *output, answers)
	}
	return cmd
}

// answer is what one part said.
type answer struct {
	Subject string `json:"subject"`
	State   string `json:"state"`
	code    cli.Code
}

// verdict prints the answers; the error carries the code of the first part that is not well.
func verdict(out io.Writer, output cli.Output, answers []answer) error {
	rows := make([][]string, len(answers))
	wrong, code := 0, cli.Done
	for i, a := range answers {
		rows[i] = []string{a.Subject, a.State}
		if a.code == cli.Done {
			continue
		}
		wrong++
		if code == cli.Done || a.code < code {
			code = a.code
		}
	}
	if err := output.Print(out, answers, []string{"SUBJECT", "STATE"}, rows); err != nil {
		return err
	}
	if wrong > 0 {
		return cli.Fail(code, "%d of %d checks are not well", wrong, len(answers))
	}
	return nil
}

func askDatabase(ctx context.Context, c *config.Config) answer {
	a := answer{Subject: "database", State: "ok"}
	pool, err := cli.Open(ctx, c.Database.URL, cli.Options{PoolMax: 1, Pooler: c.Database.Pooler, Application: "relay check"})
	if err != nil {
		a.State, a.code = err.Error(), cli.CodeOf(err)
		return a
	}
	pool.Close()
	return a
}

// askBrokers asks all brokers at once, and gives the answers in the order of their names.
func askBrokers(ctx context.Context, c *config.Config, bs brokers) []answer {
	names := bs.names()
	all := make([][]answer, len(names))
	var wait sync.WaitGroup
	for i, name := range names {
		wait.Go(func() { all[i] = askBroker(ctx, c, name, bs[name]) })
	}
	wait.Wait()
	var out []answer
	for _, as := range all {
		out = append(out, as...)
	}
	return out
}

func askBroker(ctx context.Context, c *config.Config, name string, adapter transport.Adapter) []answer {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	broker := answer{Subject: "broker " + name, State: "ok"}
	endpoints, err := served(c, name)
	if err != nil {
		return []answer{{Subject: broker.Subject, State: err.Error(), code: cli.Refused}}
	}
	var out []answer
	for _, e := range endpoints {
		drifts, err := adapter.Inspect(ctx, []transport.Endpoint{e})
		if err != nil && !errors.Is(err, messaging.ErrTopology) && !errors.Is(err, messaging.ErrAuthorization) {
			broker.State, broker.code = brokerTrouble(err)+whereToLook(c.Messaging.Brokers[name], err), cli.Broker
			return []answer{broker}
		}
		out = append(out, askDestination(ctx, e, adapter, drifts, err))
	}
	return append([]answer{broker}, out...)
}

func askDestination(ctx context.Context, e transport.Endpoint, adapter transport.Adapter, drifts []transport.Drift, err error) answer {
	a := answer{Subject: "destination " + string(e.Name), State: "ok"}
	fail := func(format string, args ...any) answer {
		a.State, a.code = fmt.Sprintf(format, args...), cli.Found
		return a
	}
	if err != nil {
		return fail("%s", brokerTrouble(err))
	}
	if len(drifts) > 0 {
		var parts []string
		for _, d := range drifts {
			parts = append(parts, fmt.Sprintf("%s is %s, wanted %s", d.Field, d.Have, d.Want))
		}
		return fail("%s", strings.Join(parts, "; "))
	}
	able, err := adapter.Capabilities(ctx, e)
	switch {
	case err != nil:
		return fail("cannot be asked what it proves: %s", brokerTrouble(err))
	case e.Producer["confirmation"] == messaging.LevelReplicationOrPersistenceAck && !able.ReplicationOrPersistenceEvidence:
		return fail("cannot prove %s", messaging.LevelReplicationOrPersistenceAck)
	}
	return a
}

// whereToLook names what of the file a broker's trouble hangs on.
func whereToLook(b config.Broker, err error) string {
	switch {
	case errors.Is(err, messaging.ErrAuthentication) && b.ProducerIdentity != "":
		return fmt.Sprintf("; producer-identity %s gives user and secret", b.ProducerIdentity)
	case errors.Is(err, messaging.ErrBrokerUnavailable):
		return fmt.Sprintf(" at %s; look at seeds and tls, and whether it runs", strings.Join(b.Seeds, ", "))
	}
	return ""
}

// brokerTrouble says in own words why a broker did not answer well.
func brokerTrouble(err error) string {
	for _, t := range []struct {
		kind error
		text string
	}{
		{messaging.ErrAuthentication, "the broker refuses the credential"},
		{messaging.ErrAuthorization, "the identity lacks a right that is needed"},
		{messaging.ErrTopology, "it does not exist on the broker"},
		{messaging.ErrBackpressure, "the broker blocks publishers"},
		{messaging.ErrBrokerUnavailable, "cannot be reached"},
		{messaging.ErrConfiguration, "the broker refuses the configuration"},
	} {
		if errors.Is(err, t.kind) {
			return t.text
		}
	}
	return "no usable answer"
}
