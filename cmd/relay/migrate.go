package main

import (
	"context"
	"database/sql"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/backend-skeleton/relay/internal/cli"
	"github.com/backend-skeleton/relay/migrations"
)

func newMigrateCommand() *cobra.Command {
	return cli.Group("migrate", "Create and change the schema of the database", `Bring the database to the schema of this program. Only the environment variable RELAY_DATABASE_URL is read: the connection
string, or a reference to it (env:NAME, file:PATH). No configuration file is needed.

The objects are made in the first schema of the connection's search_path. Several processes may migrate at once: they
take turns on an advisory lock of the session, so the address must lead to the server itself and not to a pooler in
transaction mode.

`+exitCodes, newMigrateUpCommand(), newMigrateDownCommand(), newMigrateStatusCommand())
}

// widths of ranges that --partitioned knows.
var widths = map[string]time.Duration{"day": 24 * time.Hour, "week": 7 * 24 * time.Hour}

func newMigrateUpCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "up", Short: "Apply every migration that is missing", Args: cli.NoArgs,
		Long: `Apply every migration that the schema has not seen, in order. Nothing to do is fine: it may run before every start.

With --partitioned a new outbox is made of ranges of message ids, each as wide as a day or a week: its relays make the next
ones and drop the old ones whole, instead of deleting row by row. A plain outbox that exists stays as it is and is refused.`,
	}
	partitioned := cmd.Flags().String("partitioned", "", "make a new outbox of ranges: day or week")
	cmd.Flags().Lookup("partitioned").NoOptDefVal = "day"
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		width, known := widths[*partitioned]
		if cmd.Flags().Changed("partitioned") && !known {
			return cli.Fail(cli.Usage, "--partitioned must be day or week")
		}
		return withDatabase(func(ctx context.Context, out io.Writer, db *sql.DB) error {
			var done []migrations.Migration
			var err error
			if known {
				done, err = migrations.UpPartitioned(ctx, db, width)
			} else {
				done, err = migrations.Up(ctx, db)
			}
			return report(ctx, out, "applied", "the schema is up to date", done, err)
		})(cmd, args)
	}
	return cmd
}

func newMigrateDownCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "down", Short: "Take back the newest migration", Args: cli.NoArgs,
		Long: `Take back the newest migration, or with --to every migration above a version (0 takes back all). Taking back the outbox
itself is refused while it holds messages that were not published.`,
	}
	to := cmd.Flags().Int64("to", -1, "take back every migration above this version")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if cmd.Flags().Changed("to") && *to < 0 {
			return cli.Fail(cli.Usage, "--to must be 0 or more")
		}
		return withDatabase(func(ctx context.Context, out io.Writer, db *sql.DB) error {
			var done []migrations.Migration
			var err error
			if *to >= 0 {
				done, err = migrations.DownTo(ctx, db, *to)
			} else {
				done, err = migrations.Down(ctx, db)
			}
			return report(ctx, out, "taken back", "nothing to take back", done, err)
		})(cmd, args)
	}
	return cmd
}

func newMigrateStatusCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "status", Short: "Show which migrations the schema has seen", Args: cli.NoArgs,
		Long: `Show which migrations the schema has seen; nothing is changed.

Exit codes: 0 the schema is that of this program; 4 the database cannot be reached, or the schema is missing, older or
newer (the list is printed all the same).`,
	}
	output := cli.AddOutput(cmd)
	cmd.RunE = withDatabase(func(ctx context.Context, out io.Writer, db *sql.DB) error {
		state, err := migrations.Status(ctx, db)
		if state.Latest > 0 {
			if err := printState(out, *output, state); err != nil {
				return err
			}
		}
		return cli.SchemaError(ctx, err)
	})
	return cmd
}

// withDatabase opens the database of RELAY_DATABASE_URL around a command.
func withDatabase(do func(ctx context.Context, out io.Writer, db *sql.DB) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, _ []string) error {
		url, err := cli.DatabaseURL()
		if err != nil {
			return err
		}
		db, err := cli.OpenDirect(cmd.Context(), url, "relay migrate")
		if err != nil {
			return err
		}
		defer db.Close()
		return do(cmd.Context(), cmd.OutOrStdout(), db)
	}
}

// report prints what a migration did; what was done before a failure is printed too.
func report(ctx context.Context, out io.Writer, verb, nothing string, done []migrations.Migration, err error) error {
	for _, m := range done {
		fmt.Fprintf(out, "%s: %05d %s\n", verb, m.Version, m.Name)
	}
	if err == nil && len(done) == 0 {
		fmt.Fprintln(out, nothing)
	}
	return cli.SchemaError(ctx, err)
}

// migrationState is one line of the status.
type migrationState struct {
	Version   int64      `json:"version"`
	Name      string     `json:"name,omitempty"`
	AppliedAt *time.Time `json:"appliedAt,omitempty"`
}

func printState(out io.Writer, output cli.Output, state migrations.State) error {
	list := make([]migrationState, 0, len(state.Migrations))
	var rows [][]string
	for _, m := range state.Migrations {
		line, applied := migrationState{Version: m.Version, Name: m.Name}, "missing"
		if !m.AppliedAt.IsZero() {
			at := m.AppliedAt.UTC()
			line.AppliedAt, applied = &at, at.Format(time.RFC3339)
		}
		name := m.Name
		if name == "" {
			name = "(unknown to this program)"
		}
		list = append(list, line)
		rows = append(rows, []string{strconv.FormatInt(m.Version, 10), name, applied})
	}
	value := struct {
		Current    int64            `json:"current"`
		Latest     int64            `json:"latest"`
		Migrations []migrationState `json:"migrations"`
	}{state.Current, state.Latest, list}
	return output.Print(out, value, []string{"VERSION", "NAME", "APPLIED"}, rows)
}
