package main

import (
	"github.com/spf13/cobra"

	"github.com/backend-skeleton/relay/internal/cli"
	"github.com/backend-skeleton/relay/internal/config"
	"github.com/backend-skeleton/relay/internal/outbox"
)

func newDoctorCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "doctor", Short: "Find what makes the outbox's database slow or unsafe", Args: cli.NoArgs,
		Long: `Look at the database of RELAY_DATABASE_URL for what slows an outbox down or makes it unsafe: transactions that are open for
too long, replication slots without a reader, missing or invalid indexes, an autovacuum that is off or behind, a clock that
differs from this host's, roles without their rights. Each finding has a code that stays, evidence, and what to do. Only
catalogs and statistics are read, nothing is changed. Sessions of other users are seen with the right of pg_read_all_stats.

Exit codes: 0 nothing was found; 2 usage; 3 RELAY_DATABASE_URL is missing or cannot be understood; 4 the database cannot be
reached or its schema does not fit; 6 something was found.`,
	}
	output := cli.AddOutput(cmd)
	snapshot := cmd.Flags().Duration("max-transaction-age", outbox.DefaultSnapshotAge, "a transaction that is open for longer is a finding")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if *snapshot <= 0 {
			return cli.Fail(cli.Usage, "--max-transaction-age must be more than 0")
		}
		url, err := cli.DatabaseURL()
		if err != nil {
			return err
		}
		pool, err := cli.Open(cmd.Context(), url, cli.Options{PoolMax: 1, Pooler: config.PoolerTransaction, Application: "relay doctor"})
		if err != nil {
			return err
		}
		defer pool.Close()
		findings, err := outbox.New(pool, outbox.Config{}).Diagnose(cmd.Context(), outbox.Limits{Snapshot: *snapshot})
		if err != nil {
			return err
		}
		rows := make([][]string, len(findings))
		for i, f := range findings {
			rows[i] = []string{f.Code, f.Evidence, f.Fix}
		}
		if err := output.Print(cmd.OutOrStdout(), findings, []string{"FINDING", "EVIDENCE", "FIX"}, rows); err != nil {
			return err
		}
		if len(findings) > 0 {
			return cli.Fail(cli.Found, "%d findings", len(findings))
		}
		return nil
	}
	return cmd
}
