package migrations

import (
	"context"
	"database/sql"
	_ "embed"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

//go:embed partitioned.sql
var partitionedSQL string

// UpPartitioned is Up for an outbox that does not exist yet and shall consist of ranges of message ids, each as wide as the
// time width, from one minute on, and of a DEFAULT partition for ids of other times. Where the outbox is partitioned already
// it is Up, and width does not matter; where it exists as a plain table, it is ErrPlain and nothing is changed.
func UpPartitioned(ctx context.Context, db *sql.DB, width time.Duration) ([]Migration, error) {
	if width < time.Minute || width%time.Minute != 0 {
		return nil, fmt.Errorf("migrate up: a range of %v is not of whole minutes", width)
	}
	done, err := upPartitioned(ctx, db, width)
	if err != nil {
		return done, fmt.Errorf("migrate up: %w", err)
	}
	return done, nil
}

func upPartitioned(ctx context.Context, db *sql.DB, width time.Duration) ([]Migration, error) {
	p, err := open(ctx, db)
	if err != nil {
		return nil, err
	}
	first, err := p.UpTo(ctx, 1)
	if err != nil {
		return before(first, err), err
	}
	if err := partition(ctx, db, width); err != nil {
		return applied(first), err
	}
	rest, err := p.Up(ctx)
	if err != nil {
		return append(applied(first), before(rest, err)...), err
	}
	return append(applied(first), applied(rest)...), nil
}

func partition(ctx context.Context, db *sql.DB, width time.Duration) error {
	_, err := db.ExecContext(ctx, fmt.Sprintf(partitionedSQL, width.Milliseconds(), lockKey))
	if refused := (*pgconn.PgError)(nil); errors.As(err, &refused) && refused.Code == "55006" {
		return ErrPlain
	}
	return err
}
