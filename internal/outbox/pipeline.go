package outbox

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Every transaction fixes its own isolation level, whatever the database's default is.
const begin = "begin isolation level read committed"

// settings hold for one transaction, so that nothing is left in a session that a pooler hands on. The planner saw an
// empty table when it first planned: these statements must stay on index scans, whatever is in their arrays, so that to
// plan them anew each time is work for nothing. JIT would be chosen by the cost of a disabled node, and compiles longer
// than the statement runs. A process that stands still inside a transaction must not keep its locks: nobody could take
// its lanes.
const settings = `select set_config('enable_seqscan', 'off', true), set_config('enable_bitmapscan', 'off', true),
 set_config('enable_sort', 'off', true), set_config('enable_hashjoin', 'off', true), set_config('enable_mergejoin', 'off', true),
 set_config('plan_cache_mode', 'force_generic_plan', true), set_config('jit', 'off', true),
 set_config('synchronous_commit', 'on', true), set_config('statement_timeout', '5000', true),
 set_config('idle_in_transaction_session_timeout', '5000', true), now()`

// settingsBefore is how many columns stand before the time.
const settingsBefore = 10

// pipeline runs each statement as a transaction of its own in one round trip.
type pipeline struct{ pool *pgxpool.Pool }

func (p pipeline) Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	rows, err := p.Query(ctx, sql, args...)
	if err != nil {
		return pgconn.CommandTag{}, err
	}
	rows.Close()
	return rows.CommandTag(), rows.Err()
}

func (p pipeline) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	rows, err := p.Query(ctx, sql, args...)
	return oneRow{rows: rows, err: err}
}

func (p pipeline) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	t, err := p.start(ctx, []statement{{sql, args}})
	if err != nil {
		return nil, err
	}
	rows, err := t.results.Query()
	if err != nil {
		return nil, t.finish(err)
	}
	return &pipelinedRows{Rows: rows, t: t}, nil
}

// start sends statements as one transaction in one round trip. Whoever gets it reads the answers in their order and ends
// it with finish.
func (p pipeline) start(ctx context.Context, statements []statement) (*transaction, error) {
	conn, err := p.pool.Acquire(ctx)
	if err != nil {
		return nil, err
	}
	teach(conn.Conn().TypeMap())
	b := &pgx.Batch{}
	b.Queue(begin)
	b.Queue(settings)
	for _, s := range statements {
		b.Queue(s.sql, s.args...)
	}
	b.Queue("commit")
	t := &transaction{conn: conn, results: conn.SendBatch(ctx, b)}
	if _, err := t.results.Exec(); err != nil {
		return nil, t.finish(err)
	}
	var columns [settingsBefore + 1]any
	columns[settingsBefore] = &t.began
	if err := t.results.QueryRow().Scan(columns[:]...); err != nil {
		return nil, t.finish(err)
	}
	return t, nil
}

// statement with its arguments.
type statement struct {
	sql  string
	args []any
}

// capture collects the statements of generated queries instead of sending them.
type capture struct{ statements []statement }

var errCaptured = errors.New("captured, not sent")

func (c *capture) Exec(_ context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	c.statements = append(c.statements, statement{sql, args})
	return pgconn.CommandTag{}, errCaptured
}

func (c *capture) Query(_ context.Context, sql string, args ...any) (pgx.Rows, error) {
	c.statements = append(c.statements, statement{sql, args})
	return nil, errCaptured
}

func (c *capture) QueryRow(_ context.Context, sql string, args ...any) pgx.Row {
	c.statements = append(c.statements, statement{sql, args})
	return oneRow{err: errCaptured}
}

// transaction is one pipelined batch; it ends with the answer to COMMIT.
type transaction struct {
	conn    *pgxpool.Conn
	results pgx.BatchResults
	began   time.Time // by the server's clock
	done    bool
	err     error
}

func (t *transaction) finish(err error) error {
	if t.done {
		return t.err
	}
	t.done = true
	if err == nil {
		var tag pgconn.CommandTag
		if tag, err = t.results.Exec(); err == nil && tag.String() != "COMMIT" {
			err = pgx.ErrTxCommitRollback
		}
	}
	if cerr := t.results.Close(); err == nil {
		err = cerr
	}
	t.err = err
	if err != nil && !readOnly(err) && !t.conn.Conn().IsClosed() {
		// A failed statement leaves the session inside its transaction. A session to a server that became read-only is
		// left so, and the pool throws it away.
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_, _ = t.conn.Exec(ctx, "rollback")
	}
	t.conn.Release()
	return err
}

// pipelinedRows ends the transaction with the last row.
type pipelinedRows struct {
	pgx.Rows
	t *transaction
}

func (r *pipelinedRows) Next() bool {
	if r.Rows.Next() {
		return true
	}
	r.Close()
	return false
}

func (r *pipelinedRows) Close() {
	r.Rows.Close()
	_ = r.t.finish(r.Rows.Err())
}

func (r *pipelinedRows) Err() error {
	if err := r.Rows.Err(); err != nil {
		return err
	}
	return r.t.err
}

func (r *pipelinedRows) Conn() *pgx.Conn { return r.t.conn.Conn() }

// oneRow reads the first row and the answer to COMMIT.
type oneRow struct {
	rows pgx.Rows
	err  error
}

func (r oneRow) Scan(dest ...any) error {
	if r.err != nil {
		return r.err
	}
	defer r.rows.Close()
	if !r.rows.Next() {
		if err := r.rows.Err(); err != nil {
			return err
		}
		return pgx.ErrNoRows
	}
	if err := r.rows.Scan(dest...); err != nil {
		return err
	}
	r.rows.Close()
	return r.rows.Err()
}
