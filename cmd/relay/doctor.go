package main

import (
	"context"
	"errors"
	"os"
	"strings"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/backend-skeleton/relay/internal/cli"
	"github.com/backend-skeleton/relay/internal/config"
	"github.com/backend-skeleton/relay/internal/outbox"
	"github.com/backend-skeleton/relay/migrations"
)

func newDoctorCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "doctor", Short: "Find what makes the outbox's database slow or unsafe", Args: cli.NoArgs,
		Long: `Look at the database of RELAY_DATABASE_URL for what slows an outbox down or makes it unsafe: snapshots that are too old,
replication slots without a reader, missing or invalid indexes, an autovacuum that is off or behind, a clock that differs from
this host's, rights that are missing, a schema of another version, lanes with an owner that cannot be right, destinations with
rows to send that nobody serves, and a pooler that swallows the notifications which wake relays up: doctor sends one to itself.

With --config, or RELAY_CONFIG, also whether the file fits: a lease that is shorter than a publish, other rules that it breaks,
the rights of its user, rows that stay longer than relay.retention says. The database is then the one that the file names.

Each finding has a code that stays, evidence, and what to do. Nothing is changed. Sessions of other users are seen with the
right of pg_read_all_stats.

Exit codes: 0 nothing was found; 2 usage; 3 RELAY_DATABASE_URL is missing or cannot be understood; 4 the database cannot be
reached or its schema does not fit (which is a finding too); 6 something was found.`,
	}
	file, output := addFile(cmd), cli.AddOutput(cmd)
	limits := outbox.Limits{}
	cmd.Flags().DurationVar(&limits.Snapshot, "max-transaction-age", outbox.DefaultSnapshotAge, "a transaction that is open for longer is a finding")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if limits.Snapshot <= 0 {
			return cli.Fail(cli.Usage, "--max-transaction-age must be more than 0")
		}
		e := examination{limits: limits}
		if err := e.readFile(cmd, file); err != nil {
			return err
		}
		err := e.examine(cmd.Context())
		if err != nil && len(e.findings) == 0 {
			return err
		}
		rows := make([][]string, len(e.findings))
		for i, f := range e.findings {
			rows[i] = []string{f.Code, f.Evidence, f.Fix}
		}
		if perr := output.Print(cmd.OutOrStdout(), e.findings, []string{"FINDING", "EVIDENCE", "FIX"}, rows); perr != nil {
			return perr
		}
		if err == nil && len(e.findings) > 0 {
			err = cli.Fail(cli.Found, "%d findings", len(e.findings))
		}
		return err
	}
	return cmd
}

// examination is one run of the doctor.
type examination struct {
	limits   outbox.Limits
	c        *config.Config // nil without a file
	findings []outbox.Finding
}

// readFile takes what a file says, if there is one. What is wrong with it is found, and no error.
func (e *examination) readFile(cmd *cobra.Command, file *fileFlag) error {
	if file.path() == "" {
		return nil
	}
	c, err := file.load(cmd)
	var refused *config.Error
	switch {
	case errors.As(err, &refused):
		for _, f := range refused.Findings {
			e.findings = append(e.findings, fileFinding(f))
		}
	case err != nil:
		return err
	default:
		e.c, e.limits.Keep, e.limits.AsRelay = c, c.Relay.Retention.Published.Std(), true
	}
	return nil
}

// fileFinding tells a lease that a publish may outlast from all else that a file can break.
func fileFinding(f config.Finding) outbox.Finding {
	if strings.HasSuffix(f.Path, ".timeout") && strings.Contains(f.Message, "relay.lease") {
		return outbox.Finding{
			Code: outbox.FindingLeaseTooShort, Evidence: f.String(),
			Fix: "raise relay.lease or lower the timeout: a publish that outlasts its lease is made again by another relay",
		}
	}
	return outbox.Finding{Code: outbox.FindingConfiguration, Evidence: f.String(), Fix: "correct the file; 'relay config check' lists all that it breaks"}
}

// database is that of the file, where there is a good one that names it, else that of the environment.
func (e *examination) database() (config.DatabaseURL, error) {
	if e.c != nil && os.Getenv(config.VariableDatabase) == "" {
		return e.c.Database.URL, nil
	}
	return cli.DatabaseURL()
}

func (e *examination) examine(ctx context.Context) error {
	url, err := e.database()
	if err != nil {
		return err
	}
	pool, err := cli.Open(ctx, url, cli.Options{PoolMax: 1, Pooler: config.PoolerTransaction, Application: "relay doctor"})
	if err != nil {
		e.findings = append(e.findings, schemaFindings(err)...)
		return err
	}
	defer pool.Close()
	found, err := outbox.New(pool, outbox.Config{}).Diagnose(ctx, e.limits)
	e.findings = append(e.findings, found...)
	if err != nil || !e.listens() {
		return err
	}
	return e.listen(ctx, pool)
}

// listens tells whether a relay would listen for wake-ups.
func (e *examination) listens() bool {
	return e.c == nil || e.c.Relay.WakeUp != config.WakeUpOff && e.c.Database.Pooler != config.PoolerTransaction && e.c.Database.PoolMax > 1
}

func (e *examination) listen(ctx context.Context, pool *pgxpool.Pool) error {
	session := pool.Config()
	if err := session.BeforeConnect(ctx, session.ConnConfig); err != nil {
		return err
	}
	heard, err := hears(ctx, session.ConnConfig, listenPatience)
	if err != nil || heard {
		return err
	}
	e.findings = append(e.findings, outbox.Finding{
		Code:     outbox.FindingListenUnheard,
		Evidence: "a notification that doctor sent to itself did not arrive within " + listenPatience.String() + ": a pooler that hands sessions on stands before the server",
		Fix:      "set database.pooler: transaction, so that relays poll and rely on no session, or give them the address of the server itself",
	})
	return nil
}

// schemaFindings says what is wrong with the schema; nothing for other errors.
func schemaFindings(err error) []outbox.Finding {
	for cause, f := range map[error]outbox.Finding{
		migrations.ErrSchemaMissing: {Code: outbox.FindingSchemaMissing, Fix: "relay migrate up"},
		migrations.ErrSchemaOlder:   {Code: outbox.FindingSchemaOlder, Fix: "relay migrate up, then deploy/sql/roles.sql"},
		migrations.ErrSchemaNewer:   {Code: outbox.FindingSchemaNewer, Fix: "run a newer version of the programs"},
	} {
		if errors.Is(err, cause) {
			f.Evidence = err.Error()
			return []outbox.Finding{f}
		}
	}
	return nil
}
