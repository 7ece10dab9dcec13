package main

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/backend-skeleton/relay/internal/cli"
	"github.com/backend-skeleton/relay/internal/config"
)

// withPool opens the database of RELAY_DATABASE_URL around a command. No statement is prepared, so that any pooler may
// stand in between.
func withPool(cmd *cobra.Command, do func(ctx context.Context, pool *pgxpool.Pool) error) error {
	url, err := cli.DatabaseURL()
	if err != nil {
		return err
	}
	pool, err := cli.Open(cmd.Context(), url, cli.Options{PoolMax: 1, Pooler: config.PoolerTransaction, Application: "inboxctl"})
	if err != nil {
		return err
	}
	defer pool.Close()
	return do(cmd.Context(), pool)
}

// age is a duration for people: whole seconds, or days and hours where it is long.
func age(d time.Duration) string {
	switch {
	case d <= 0:
		return ""
	case d < 48*time.Hour:
		return d.Round(time.Second).String()
	}
	return fmt.Sprintf("%dd%dh", int(d.Hours())/24, int(d.Hours())%24)
}

// moment is a time for people, in UTC; nothing for none.
func moment(t *time.Time) string {
	if t == nil || t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}

// utc is a time for JSON.
func utc(t *time.Time) *time.Time {
	if t == nil || t.IsZero() {
		return nil
	}
	u := t.UTC()
	return &u
}
