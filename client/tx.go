package client

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

const rollbackTimeout = 5 * time.Second

// InTx runs fn in a transaction. It returns nil if, and only if, the server answered COMMIT; then it wakes the relays.
//
// If fn returns an error, the transaction is rolled back and InTx returns that error. If fn panics, the transaction is
// rolled back and the panic goes on. If fn ignored the error of a statement, the server answers COMMIT with ROLLBACK and
// InTx returns [pgx.ErrTxCommitRollback]. If COMMIT got no answer, the error is [ErrCommitUnknown].
func (c *Client) InTx(ctx context.Context, db *pgxpool.Pool, fn func(context.Context, pgx.Tx) error) error {
	if err := inTx(ctx, db, fn); err != nil {
		return err
	}
	c.Woken()
	return nil
}

func inTx(ctx context.Context, db *pgxpool.Pool, fn func(context.Context, pgx.Tx) error) error {
	tx, err := db.Begin(ctx)
	if err != nil {
		return fmt.Errorf("begin: %w", err)
	}
	defer rollback(ctx, tx) // after a commit it does nothing
	if err := fn(ctx, tx); err != nil {
		return err
	}
	return commitError(tx.Commit(ctx))
}

// rollback works after the caller's context has ended too. Its error is of no use: a connection that cannot roll back is
// closed, and the server rolls back.
func rollback(ctx context.Context, tx pgx.Tx) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackTimeout)
	defer cancel()
	_ = tx.Rollback(ctx)
}
