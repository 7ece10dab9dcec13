package outbox

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/backend-skeleton/relay/internal/outbox/outboxdb"
)

const (
	retentionTask = "retention"
	taskLease     = time.Minute
	prunePage     = 5000
)

// Prune deletes rows that have been PUBLISHED for longer than keep, a page in primary-key order at a time, until ids
// younger than keep are reached or ctx ends. One process does it at a time, by a lease on the task; the others give
// back false. The place is kept after every page, so that a crash loses no progress. Nothing but PUBLISHED rows goes.
// after is called with the rows of each page and may pause.
func (s *Store) Prune(ctx context.Context, keep time.Duration, after func(deleted int64)) (mine bool, err error) {
	cursor, mine, err := s.takeTask(ctx, retentionTask)
	if err != nil || !mine {
		return false, err
	}
	defer func() {
		free, cancel := context.WithTimeout(context.WithoutCancel(ctx), StatementTimeout)
		defer cancel()
		if rerr := s.do(free, "release the retention task", func(ctx context.Context, q *outboxdb.Queries) error {
			return q.ReleaseTask(ctx, outboxdb.ReleaseTaskParams{Name: retentionTask, Owner: s.c.Owner})
		}); err == nil {
			err = rerr
		}
	}()
	at, err := uuid.Parse(cursor)
	if err != nil {
		at = uuid.Nil
	}
	for ctx.Err() == nil {
		var page outboxdb.PrunePageRow
		err := s.do(ctx, "prune", func(ctx context.Context, q *outboxdb.Queries) (err error) {
			page, err = q.PrunePage(ctx, outboxdb.PrunePageParams{Cursor: at, Step: prunePage, Keep: keep})
			return err
		})
		if err != nil {
			return true, err
		}
		after(page.Deleted)
		at = page.Last
		last := page.Seen < prunePage || page.Young
		if last {
			at = uuid.Nil
		}
		var kept int64
		err = s.do(ctx, "keep the retention's place", func(ctx context.Context, q *outboxdb.Queries) (err error) {
			kept, err = q.SaveTask(ctx, outboxdb.SaveTaskParams{Name: retentionTask, Owner: s.c.Owner, Cursor: at.String(), Ttl: taskLease})
			return err
		})
		if err != nil || kept == 0 || last {
			return true, err
		}
	}
	return true, nil
}

func (s *Store) takeTask(ctx context.Context, name string) (cursor string, mine bool, err error) {
	err = s.do(ctx, "take the task "+name, func(ctx context.Context, q *outboxdb.Queries) error {
		c, err := q.TakeTask(ctx, outboxdb.TakeTaskParams{Name: name, Owner: s.c.Owner, Ttl: taskLease})
		if errors.Is(err, pgx.ErrNoRows) {
			return nil
		}
		if err == nil {
			mine = true
			if c != nil {
				cursor = *c
			}
		}
		return err
	})
	return cursor, mine, err
}
