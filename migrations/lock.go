package migrations

import (
	"context"
	"database/sql"
	"fmt"
)

// schemaLock makes processes that migrate the same schema take turns. It is an advisory lock of the session, so it
// ends with the connection, however that ends. Other schemas of the same database have locks of their own.
type schemaLock struct{}

const lockKey = `hashtextextended('` + versionTable + `:' || current_schema(), 0)`

// SessionLock waits until the lock is free or ctx ends.
func (schemaLock) SessionLock(ctx context.Context, conn *sql.Conn) error {
	if _, err := conn.ExecContext(ctx, `select pg_advisory_lock(`+lockKey+`)`); err != nil {
		return fmt.Errorf("wait for another migration to end: %w", err)
	}
	return nil
}

// SessionUnlock gives the lock back.
func (schemaLock) SessionUnlock(ctx context.Context, conn *sql.Conn) error {
	if _, err := conn.ExecContext(ctx, `select pg_advisory_unlock(`+lockKey+`)`); err != nil {
		return fmt.Errorf("give back the migration lock: %w", err)
	}
	return nil
}
