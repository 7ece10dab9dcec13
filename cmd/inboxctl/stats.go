package main

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/backend-skeleton/relay/internal/cli"
	"github.com/backend-skeleton/relay/internal/outbox"
)

func newOutboxCommand() *cobra.Command {
	return cli.Group("outbox", "Look at the rows of the outbox", `Count or list the rows of the outbox.

`+exitCodes, newOutboxStatsCommand(), newOutboxListCommand())
}

func newOutboxStatsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "stats", Short: "Count rows by destination and status", Args: cli.NoArgs,
		Long: `Count the rows of the outbox by destination and status. LEASED counts rows that a live relay may have on the wire now;
OLDEST is the age of the oldest row that waits to be published. The line (unknown) stands for rows of destinations that no
relay's file names. The cost is bounded: counts of very large tables are estimates, marked with ~.`,
	}
	output := cli.AddOutput(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return withPool(cmd, func(ctx context.Context, pool *pgxpool.Pool) error {
			s, err := outbox.New(pool, outbox.Config{}).Stats(ctx)
			if err != nil {
				return err
			}
			out := statsOutput{AsOf: s.AsOf.UTC(), Destinations: []destinationOutput{}}
			var rows [][]string
			for _, d := range s.Destinations {
				out.Destinations = append(out.Destinations, outputOf(d))
				rows = append(rows, statsRow(d))
			}
			header := append(append([]string{"DESTINATION"}, stateWords()...), "LEASED", "OLDEST")
			return output.Print(cmd.OutOrStdout(), out, header, rows)
		})
	}
	return cmd
}

// statsOutput is the JSON of outbox stats and destinations list.
type statsOutput struct {
	AsOf         time.Time           `json:"asOf"`
	Destinations []destinationOutput `json:"destinations"`
}

type destinationOutput struct {
	Name             string           `json:"name"` // empty: the rows of all unknown destinations
	Served           bool             `json:"served"`
	Counts           map[string]int64 `json:"counts"`
	Estimated        bool             `json:"estimated,omitempty"`
	Leased           int64            `json:"leased"`
	OldestAgeSeconds float64          `json:"oldestAgeSeconds"`
	Lanes            map[string]int64 `json:"lanes"`
}

// jsonNames are the states as JSON names them.
var jsonNames = map[outbox.State]string{
	outbox.Pending: "pending", outbox.Scheduled: "scheduled", outbox.RetryableFailure: "retryableFailure", outbox.Ambiguous: "ambiguous",
	outbox.Held: "held", outbox.Published: "published", outbox.Parked: "parked",
}

func outputOf(d outbox.DestinationStats) destinationOutput {
	out := destinationOutput{
		Name: d.Destination, Served: d.Served, Counts: map[string]int64{}, Estimated: d.Estimated, Leased: d.Leased,
		OldestAgeSeconds: d.Oldest.Seconds(), Lanes: map[string]int64{},
	}
	for state, name := range jsonNames {
		out.Counts[name] = d.Rows[state]
	}
	for state, n := range d.Lanes {
		out.Lanes[strings.ToLower(state)] = n
	}
	return out
}

func stateWords() []string {
	var out []string
	for _, s := range outbox.AllStates() {
		out = append(out, string(s))
	}
	return out
}

func statsRow(d outbox.DestinationStats) []string {
	row := []string{d.Destination}
	if d.Destination == "" {
		row[0] = "(unknown)"
	}
	for _, s := range outbox.AllStates() {
		n := strconv.FormatInt(d.Rows[s], 10)
		if d.Estimated {
			n = "~" + n
		}
		row = append(row, n)
	}
	return append(row, strconv.FormatInt(d.Leased, 10), age(d.Oldest))
}
