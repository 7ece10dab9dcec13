package client

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// commitError tells a commit that failed from one whose answer is missing. Where it cannot be told, it is missing.
func commitError(err error) error {
	switch {
	case err == nil:
		return nil
	case rolledBack(err):
		return fmt.Errorf("commit: %w", err)
	default:
		return fmt.Errorf("%w: %w", ErrCommitUnknown, err)
	}
}

func rolledBack(err error) bool {
	switch {
	case errors.Is(err, pgx.ErrTxCommitRollback), errors.Is(err, pgx.ErrTxClosed), errors.Is(err, sql.ErrTxDone):
		return true
	case pgconn.SafeToRetry(err): // nothing was sent
		return true
	case err == context.Canceled, err == context.DeadlineExceeded: //nolint:errorlint // database/sql's own answer before it sends anything
		return true
	}
	var pg *pgconn.PgError
	if errors.As(err, &pg) && pg.SeverityUnlocalized != "ERROR" {
		return false
	}
	state := sqlState(err)
	// A server that refuses to commit says so. One that is stopped or loses its connection may have committed before.
	return state != "" && !strings.HasPrefix(state, "57P") && !strings.HasPrefix(state, "08")
}

// sqlState is the server's five-letter code, whatever the driver; empty where the server did not answer.
func sqlState(err error) string {
	var coded interface{ SQLState() string } // pgx's and lib/pq's errors
	if errors.As(err, &coded) {
		return coded.SQLState()
	}
	return ""
}
