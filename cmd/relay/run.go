package main

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/spf13/cobra"

	"github.com/backend-skeleton/relay/internal/cli"
	"github.com/backend-skeleton/relay/internal/config"
)

// application names the relay's sessions to the database server, unless the URL does.
const application = "relay"

// runOptions are the flags of run.
type runOptions struct {
	untilEmpty bool
	timeout    time.Duration
}

func newRunCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "run", Short: "Publish the outbox until stopped", Args: cli.NoArgs,
		Long: `Lease rows of the outbox, publish them, record what the brokers proved, and go on until the process is asked to stop. As
many processes as you like may run on one database: they share the work, and the order of each key holds across them.

A stop (SIGTERM, SIGINT) claims nothing more, lets what is in flight finish for relay.drain (30s), records the outcomes,
gives the leases back and ends with 0. A second signal ends at once; what was in flight is then sent again by another
relay under the same id.

A broker that is down is no reason not to start: its destinations wait and the others go on. In staging and production
the start waits for each broker's proof that it keeps what it confirms.

With --until-empty the process ends by itself once nothing is left to publish in the served destinations. Rows that are
not due yet, wait behind such a row, or are parked are not waited for.

` + exitCodes,
	}
	file := addFile(cmd)
	var o runOptions
	cmd.Flags().BoolVar(&o.untilEmpty, "until-empty", false, "end once nothing is left to publish")
	cmd.Flags().DurationVar(&o.timeout, "timeout", 5*time.Minute, "with --until-empty: the longest wait for brokers and leases; then exit code 6")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if o.timeout <= 0 {
			return cli.Fail(cli.Usage, "--timeout must be more than 0")
		}
		if cmd.Flags().Changed("timeout") && !o.untilEmpty {
			return cli.Fail(cli.Usage, "--timeout needs --until-empty")
		}
		c, err := file.load(cmd)
		if err != nil {
			return err
		}
		if err := c.Ready(file.path()); err != nil {
			return err
		}
		return run(cmd.Context(), c, o, newLogger(cmd.ErrOrStderr(), c.Observability))
	}
	return cmd
}

// run opens what the relay needs, runs it, and closes everything in the reverse order.
func run(ctx context.Context, c *config.Config, o runOptions, log *slog.Logger) (err error) {
	for _, raised := range c.Overrides() {
		log.Warn("limit raised by the configuration", "path", raised.Path, "value", raised.Value, "default", raised.Default, "reason", raised.Reason)
	}
	pool, err := cli.Open(ctx, c.Database.URL, cli.Options{PoolMax: c.Database.PoolMax, Pooler: c.Database.Pooler, Application: application})
	if err != nil {
		return err
	}
	defer pool.Close()
	bs, err := openBrokers(c, log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, bs.close()) }()
	p, err := assemble(c, pool, bs, log)
	if err != nil {
		return err
	}
	return p.run(ctx, o)
}
