package main

import (
	"context"
	"strconv"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/backend-skeleton/relay/internal/cli"
	"github.com/backend-skeleton/relay/internal/outbox"
)

func newDestinationsCommand() *cobra.Command {
	return cli.Group("destinations", "Look at the destinations", `Show the destinations that relays know.

`+exitCodes, newDestinationsListCommand())
}

func newDestinationsListCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "list", Short: "List destinations and whether a relay serves them", Args: cli.NoArgs,
		Long: `List every destination that a relay's file names or named. SERVED says whether a live relay publishes it now; rows of one
that is not served wait and are not touched. LANES are the sixteenths of a destination that relays lease: leased by a
live relay, free, or expired (their relay died, another one takes over).`,
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
				if d.Destination == "" {
					continue // rows of unknown destinations are no destination
				}
				out.Destinations = append(out.Destinations, outputOf(d))
				rows = append(rows, destinationRow(d))
			}
			return output.Print(cmd.OutOrStdout(), out,
				[]string{"DESTINATION", "SERVED", "WAITING", "PARKED", "OLDEST", "LANES LEASED", "FREE", "EXPIRED"}, rows)
		})
	}
	return cmd
}

func destinationRow(d outbox.DestinationStats) []string {
	served := "no"
	if d.Served {
		served = "yes"
	}
	waiting := int64(0)
	for state, n := range d.Rows {
		if state != outbox.Published && state != outbox.Parked {
			waiting += n
		}
	}
	count := func(n int64) string { return strconv.FormatInt(n, 10) }
	return []string{
		d.Destination, served, count(waiting), count(d.Rows[outbox.Parked]), age(d.Oldest),
		count(d.Lanes["LEASED"]), count(d.Lanes["FREE"]), count(d.Lanes["EXPIRED"]),
	}
}
