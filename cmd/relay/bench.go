package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/backend-skeleton/relay/internal/bench"
	"github.com/backend-skeleton/relay/internal/cli"
)

func newBenchCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "bench", Short: "Measure this machine and its servers", Args: cli.NoArgs,
		Long: `Measure how fast an outbox drains on this machine, what it costs, and how that compares with the least that reading,
producing and marking costs here, measured in the same run. Goals stand beside the numbers; nothing is asserted. The run
takes a few minutes and both settings of a relay that are worth comparing.

RELAY_DATABASE_URL names the database. A schema, a topic and a queue are made, used and removed; nothing else is touched,
but the load is real: do not point it at servers that others rely on.

` + exitCodes,
	}
	var o bench.Options
	var batches []int
	var inFlight int
	f := cmd.Flags()
	f.StringSliceVar(&o.Kafka, "kafka", nil, "seeds of a Kafka cluster, host:port; without: one in this process")
	f.StringVar(&o.RabbitMQ, "rabbitmq", "", "amqp:// URL of a RabbitMQ; without: left out")
	f.StringVar(&o.RabbitMQAPI, "rabbitmq-api", "", "URL of its management API")
	f.IntVar(&o.Rows, "rows", 60_000, "rows of one drain")
	f.IntVar(&o.Repeat, "repeat", 3, "drains of which the median counts")
	f.DurationVar(&o.Steady, "steady", 6*time.Second, "length of each steady load")
	f.IntSliceVar(&batches, "batch", []int{100, 1000}, "columns: the most rows of one lane per claim")
	f.IntVar(&inFlight, "in-flight", 1000, "most open rows of a broker")
	f.BoolVar(&o.Full, "full", false, "tables as large as the goals say: 5 M published rows, 1 M dead entries, 1 M messages of 1 KB")
	f.IntVar(&o.Ranges, "ranges", 0, "measure a partitioned outbox of so many ranges of a day; 0: a plain table")
	f.StringSliceVar(&o.Only, "only", nil, "parts to run: "+strings.Join(bench.Parts(), ", "))
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if o.Ranges < 0 {
			return cli.Fail(cli.Usage, "--ranges must be 0 or more")
		}
		if o.Rows < 1 || o.Repeat < 1 || o.Steady <= 0 || inFlight < 1 {
			return cli.Fail(cli.Usage, "--rows, --repeat, --steady and --in-flight must be more than 0")
		}
		for _, n := range batches {
			if n < 1 {
				return cli.Fail(cli.Usage, "--batch must be more than 0")
			}
			o.Settings = append(o.Settings, bench.Setting{Batch: n, InFlight: inFlight})
		}
		database, err := benchDatabase()
		if err != nil {
			return err
		}
		o.Database, o.Progress, o.Victim = database, cmd.ErrOrStderr(), startVictim
		report, err := bench.Run(cmd.Context(), o)
		if report != nil {
			err = errors.Join(err, report.Write(cmd.OutOrStdout()))
		}
		return err
	}
	cmd.AddCommand(newVictimCommand())
	return cmd
}

func benchDatabase() (string, error) {
	url, err := cli.DatabaseURL()
	if err != nil {
		return "", err
	}
	text, err := url.Resolve()
	if err != nil {
		return "", cli.Fail(cli.Refused, "RELAY_DATABASE_URL: %w", err)
	}
	return text, nil
}

// newVictimCommand is the process that the bench kills.
func newVictimCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "victim SCHEMA BATCH IN-FLIGHT", Hidden: true, Args: cobra.ExactArgs(3)}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		database, err := benchDatabase()
		if err != nil {
			return err
		}
		batch, errBatch := strconv.Atoi(args[1])
		inFlight, errInFlight := strconv.Atoi(args[2])
		if err := errors.Join(errBatch, errInFlight); err != nil {
			return cli.Fail(cli.Usage, "%w", err)
		}
		return bench.Victim(cmd.Context(), database, args[0], bench.Setting{Batch: batch, InFlight: inFlight})
	}
	return cmd
}

// startVictim gives what kills the process, and waits for its end. The end of ctx kills it too.
func startVictim(ctx context.Context, schema string, s bench.Setting) (func() error, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program: %w", err)
	}
	cmd := exec.CommandContext(ctx, self, "bench", "victim", schema, strconv.Itoa(s.Batch), strconv.Itoa(s.InFlight)) //nolint:gosec // this very program, with numbers
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start a second relay: %w", err)
	}
	return func() error {
		if err := cmd.Process.Kill(); err != nil {
			return fmt.Errorf("kill the second relay: %w", err)
		}
		_ = cmd.Wait() // it was killed
		return nil
	}, nil
}
