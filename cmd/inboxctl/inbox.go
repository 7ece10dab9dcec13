package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/backend-skeleton/relay/internal/cli"
	"github.com/backend-skeleton/relay/internal/inbox"
)

func newInboxCommand() *cobra.Command {
	return cli.Group("inbox", "Look at the inbox and remove what has expired", `Count what the inbox remembers, or remove what has expired.

`+exitCodes, newInboxStatsCommand(), newInboxPruneCommand())
}

// consumerOutput is the JSON of one consumer.
type consumerOutput struct {
	Consumer string     `json:"consumer"`
	Messages int64      `json:"messages"`
	Expired  int64      `json:"expired"`
	Oldest   *time.Time `json:"oldest,omitempty"`
	Newest   *time.Time `json:"newest,omitempty"`
}

func newInboxStatsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "stats", Short: "Count the remembered messages of each consumer", Args: cli.NoArgs,
		Long: `Count, for each consumer, the messages that it has handled and still remembers, and those of them whose time is over
(EXPIRED), with the times of the oldest and the newest. The whole table is read.`,
	}
	output := cli.AddOutput(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return withPool(cmd, func(ctx context.Context, pool *pgxpool.Pool) error {
			all, err := inbox.Stats(ctx, pool)
			if err != nil {
				return err
			}
			values, rows := make([]consumerOutput, len(all)), make([][]string, len(all))
			for i := range all {
				c := &all[i]
				values[i] = consumerOutput{Consumer: string(c.Consumer), Messages: c.Messages, Expired: c.Expired, Oldest: utc(&c.Oldest), Newest: utc(&c.Newest)}
				rows[i] = []string{
					string(c.Consumer), strconv.FormatInt(c.Messages, 10), strconv.FormatInt(c.Expired, 10), moment(&c.Oldest), moment(&c.Newest),
				}
			}
			return output.Print(cmd.OutOrStdout(), values, []string{"CONSUMER", "MESSAGES", "EXPIRED", "OLDEST", "NEWEST"}, rows)
		})
	}
	return cmd
}

func newInboxPruneCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "prune", Short: "Remove what has expired", Args: cli.NoArgs,
		Long: `Remove the messages whose time is over, in batches that each commit by themselves, until none is left. What was removed
before an interruption stays removed; several may prune at once. A message that a broker delivers again after it was
removed here is handled as a new one, so keep the inbox longer than the broker keeps messages.`,
	}
	output := cli.AddOutput(cmd)
	batch := cmd.Flags().Int("batch", inbox.DefaultPruneBatch, "the most rows that one statement removes, 1 to 1000000")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if *batch < 1 || *batch > 1_000_000 {
			return cli.Fail(cli.Usage, "--batch must be 1 to 1000000")
		}
		return withPool(cmd, func(ctx context.Context, pool *pgxpool.Pool) error {
			removed, err := inbox.Prune(ctx, pool, *batch)
			if ctx.Err() != nil {
				err = errors.New("interrupted")
			}
			if err != nil {
				return fmt.Errorf("%w; %d were removed before", err, removed)
			}
			value := struct {
				Removed int64 `json:"removed"`
			}{removed}
			return output.Print(cmd.OutOrStdout(), value, []string{"REMOVED"}, [][]string{{strconv.FormatInt(removed, 10)}})
		})
	}
	return cmd
}
