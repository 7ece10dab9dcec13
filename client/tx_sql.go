package client

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/jackc/pgx/v5/stdlib"

	"github.com/backend-skeleton/relay/client/internal/clientsql"
)

// InTxSQL is [Client.InTx] for database/sql, with any PostgreSQL driver.
func (c *Client) InTxSQL(ctx context.Context, db *sql.DB, fn func(context.Context, *sql.Tx) error) error {
	if err := inTxSQL(ctx, db, fn); err != nil {
		return err
	}
	c.Woken()
	return nil
}

func inTxSQL(ctx context.Context, db *sql.DB, fn func(context.Context, *sql.Tx) error) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return fmt.Errorf("begin: %w", err)
	}
	defer func() { _ = tx.Rollback() }() // after a commit it does nothing
	if err := fn(ctx, tx); err != nil {
		return err
	}
	return commitSQL(ctx, db, tx)
}

// commitSQL makes sure that COMMIT was COMMIT. database/sql hides the server's answer, and not every driver looks at it:
// where it may be overlooked, a statement before it fails if the transaction is broken.
func commitSQL(ctx context.Context, db *sql.DB, tx *sql.Tx) error {
	if _, checked := db.Driver().(*stdlib.Driver); !checked {
		if err := clientsql.New(tx).TransactionUsable(ctx); err != nil {
			return fmt.Errorf("commit: %w", err)
		}
	}
	return commitError(tx.Commit())
}
