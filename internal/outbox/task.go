package outbox

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/backend-skeleton/relay/internal/outbox/outboxdb"
)

// taskLease is how long a task stays with a process that does not say anything any more. Every step of it renews the lease.
const taskLease = time.Minute

// task is a piece of housekeeping that one process of the fleet does at a time. Its lease and place stand in the
// database, because a lock of the session would not survive a pooler.
type task struct {
	name string
	// place is where the last one got to; empty for the beginning.
	place string
	// began is the moment the task was taken, by the database clock.
	began time.Time
}

// withTask does the work if nobody else of the fleet is at it, and gives the task back. mine tells whether it was done
// here.
func (s *Store) withTask(ctx context.Context, name string, work func(task) error) (mine bool, err error) {
	t := task{name: name}
	err = s.do(ctx, "take the task "+name, func(ctx context.Context, q *outboxdb.Queries) error {
		row, err := q.TakeTask(ctx, outboxdb.TakeTaskParams{Name: name, Owner: s.c.Owner, Ttl: taskLease})
		if errors.Is(err, pgx.ErrNoRows) { // another one's
			return nil
		}
		if err != nil {
			return err
		}
		mine, t.began = true, row.Now
		if row.Cursor != nil {
			t.place = *row.Cursor
		}
		return nil
	})
	if err != nil || !mine {
		return false, err
	}
	defer func() {
		free, cancel := context.WithTimeout(context.WithoutCancel(ctx), StatementTimeout)
		defer cancel()
		released := s.do(free, "release the task "+name, func(ctx context.Context, q *outboxdb.Queries) error {
			return q.ReleaseTask(ctx, outboxdb.ReleaseTaskParams{Name: name, Owner: s.c.Owner})
		})
		if err == nil {
			err = released
		}
	}()
	return true, work(t)
}

// save keeps the task's place and lease. It gives false when another process has taken the task meanwhile.
func (s *Store) save(ctx context.Context, t task, place string) (bool, error) {
	var rows int64
	err := s.do(ctx, "keep the place of the task "+t.name, func(ctx context.Context, q *outboxdb.Queries) (err error) {
		rows, err = q.SaveTask(ctx, outboxdb.SaveTaskParams{Name: t.name, Owner: s.c.Owner, Cursor: place, Ttl: taskLease})
		return err
	})
	return rows > 0, err
}
