package outbox

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/backend-skeleton/relay/internal/outbox/outboxdb"
)

// StatementTimeout bounds every statement of the store, on the server and, a little longer, in the process.
const StatementTimeout = 5 * time.Second

// Config of a [Store].
type Config struct {
	// Owner is the id of this process start, never reused. Zero makes a fresh one.
	Owner uuid.UUID
	// Name and Version of the process, for people who look at the fleet.
	Name, Version string
	// LeaseTTL is how long a lane stays owned without renewal.
	LeaseTTL time.Duration
}

// Store is the outbox of one database, seen by one process. It is safe for concurrent use and holds at most one
// connection per call.
type Store struct {
	pool *pgxpool.Pool
	c    Config
	pipe pipeline
	q    *outboxdb.Queries
}

// New gives the store of the database that pool reaches.
func New(pool *pgxpool.Pool, c Config) *Store {
	if c.Owner == uuid.Nil {
		c.Owner = uuid.Must(uuid.NewV7())
	}
	pipe := pipeline{pool: pool}
	return &Store{pool: pool, c: c, pipe: pipe, q: outboxdb.New(pipe)}
}

// Owner is the id under which this process holds lanes.
func (s *Store) Owner() uuid.UUID { return s.c.Owner }

// do runs one statement with a deadline and repeats it when the server chose it as the victim of a conflict: such a
// statement did nothing, and no attempt of a row is spent for it.
func (s *Store) do(ctx context.Context, op string, f func(context.Context, *outboxdb.Queries) error) error {
	const tries = 5
	for try := 1; ; try++ {
		limited, cancel := context.WithTimeout(ctx, StatementTimeout+time.Second)
		err := f(limited, s.q)
		cancel()
		if err == nil {
			return nil
		}
		if cause := causeOf(err); cause != nil {
			return fmt.Errorf("outbox: %s: %w: %w", op, cause, err)
		}
		if refused(err) {
			return fmt.Errorf("outbox: %s: %w: %w", op, ErrRefused, err)
		}
		if try == tries || !conflict(err) || ctx.Err() != nil {
			return fmt.Errorf("outbox: %s: %w", op, err)
		}
	}
}

// conflict tells serialization failures and deadlocks, after which the transaction is gone and may be repeated.
func conflict(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && (pg.Code == "40001" || pg.Code == "40P01")
}

// refused tells data exceptions and broken constraints.
func refused(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && len(pg.Code) == 5 && (pg.Code[:2] == "22" || pg.Code[:2] == "23")
}

// readOnly tells a server that became a standby under the session.
func readOnly(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && pg.Code == "25006"
}
