package outbox

import (
	"context"
	"errors"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// explain answers each query with an error that holds its plan.
type explain struct{ pgx.Tx }

func (e explain) plan(ctx context.Context, sql string, args ...any) error {
	rows, err := e.Tx.Query(ctx, "explain "+sql, args...)
	if err != nil {
		return err
	}
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return err
	}
	return errors.New(strings.Join(lines, "\n"))
}

func (e explain) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	return nil, e.plan(ctx, sql, args...)
}

func (e explain) Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	return pgconn.CommandTag{}, e.plan(ctx, sql, args...)
}

func (e explain) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	return oneRow{err: e.plan(ctx, sql, args...)}
}
