package outbox

import (
	"bytes"
	"context"
	"errors"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/backend-skeleton/relay/internal/outbox/outboxdb"
)

const rangesTask = "ranges"

// rangesAhead is how many ranges there are beyond the one of now: relays may be away for as long, and rows find their place.
const rangesAhead = 3

// A range is dropped under a lock behind which everybody waits, so the lock is waited for shortly and more than once.
const (
	dropTries = 5
	dropPause = time.Second
)

// TendRanges keeps the ranges of ids of a partitioned outbox: it makes those that come next, and where published rows do not
// stay for ever, it drops the ranges in which every row has been PUBLISHED for longer than the retention time, or with an
// archive those that the archive has emptied. Of a plain outbox it does nothing. One process of the fleet does it at a time.
// after is called as by [Store.Prune], with the rows that went in a drop.
func (s *Store) TendRanges(ctx context.Context, r Retention, after func(Page)) error {
	if ranges, err := s.ranges(ctx); err != nil || len(ranges) == 0 {
		return err
	}
	_, err := s.withTask(ctx, rangesTask, func(t task) error {
		if err := s.addRanges(ctx); err != nil {
			return err
		}
		if r.Keep <= 0 {
			return nil
		}
		return s.dropRanges(ctx, t, r, after)
	})
	return err
}

// dropRanges drops what it may, the oldest first.
func (s *Store) dropRanges(ctx context.Context, t task, r Retention, after func(Page)) error {
	ranges, err := s.ranges(ctx)
	if err != nil {
		return err
	}
	due := idAt(t.began.Add(-r.Keep))
	for _, old := range ranges[:max(len(ranges)-1, 0)] { // the last one says how wide the next is
		if bytes.Compare(old.Upper[:], due[:]) > 0 {
			break
		}
		if err := s.dropRange(ctx, t, old, r, after); err != nil {
			return err
		}
	}
	return nil
}

// addRanges makes the next ranges; where somebody uses the DEFAULT partition for long, it is left to the next time.
func (s *Store) addRanges(ctx context.Context) error {
	return unlessBusy(s.do(ctx, "make ranges", func(ctx context.Context, q *outboxdb.Queries) error {
		_, err := q.AddRanges(ctx, rangesAhead)
		return err
	}))
}

func (s *Store) ranges(ctx context.Context) (ranges []outboxdb.RangesRow, err error) {
	err = s.do(ctx, "list the ranges", func(ctx context.Context, q *outboxdb.Queries) (err error) {
		ranges, err = q.Ranges(ctx)
		return err
	})
	return ranges, err
}

// dropRange drops a past range if all of it may go.
func (s *Store) dropRange(ctx context.Context, t task, old outboxdb.RangesRow, r Retention, after func(Page)) error {
	var rows int64
	if !r.Archive {
		var all bool
		var err error
		if rows, all, err = s.allDue(ctx, t, old, r, after); err != nil || !all {
			return err
		}
	}
	for try := 1; ; try++ {
		var dropped bool
		began := time.Now()
		err := s.do(ctx, "drop a range", func(ctx context.Context, q *outboxdb.Queries) (err error) {
			dropped, err = q.DropRange(ctx, outboxdb.DropRangeParams{Range: old.Name, OnlyEmpty: r.Archive})
			return err
		})
		switch {
		case err == nil && dropped:
			after(Page{Rows: rows, Took: time.Since(began)})
			return nil
		case !lockBusy(err) || try == dropTries:
			return unlessBusy(err) // somebody uses the table for long: next time
		}
		select {
		case <-time.After(dropPause):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// allDue walks through a range and tells whether every row of it may go, and how many there are. It ends at the first page
// with one that may not.
func (s *Store) allDue(ctx context.Context, t task, old outboxdb.RangesRow, r Retention, after func(Page)) (rows int64, all bool, err error) {
	step := r.Batch
	if step <= 0 {
		step = DefaultPruneBatch
	}
	at := before(old.Lower)
	for ctx.Err() == nil {
		var page outboxdb.UndueOfRangeRow
		began := time.Now()
		err := s.do(ctx, "look through a range", func(ctx context.Context, q *outboxdb.Queries) (err error) {
			page, err = q.UndueOfRange(ctx, outboxdb.UndueOfRangeParams{Keep: r.Keep, After: at, Before: old.Upper, Step: int32(step)})
			return err
		})
		if err != nil || page.Stays > 0 {
			return 0, false, err
		}
		rows += page.Seen
		if page.Seen < int64(step) {
			return rows, true, nil
		}
		at = page.Last
		after(Page{Took: time.Since(began)})
		if mine, err := s.save(ctx, t, ""); err != nil || !mine {
			return 0, false, err
		}
	}
	return 0, false, nil
}

// wholeRanges ends the ids that are old enough at the beginning of the range that is only partly so: it is dropped whole when
// its time has come, and nothing of it is deleted before.
func wholeRanges(in interval, ranges []outboxdb.RangesRow) interval {
	for _, r := range ranges {
		if bytes.Compare(r.Lower[:], in.before[:]) < 0 && bytes.Compare(in.before[:], r.Upper[:]) < 0 {
			in.before = r.Lower
		}
	}
	return in
}

// before is the greatest id that is smaller than a boundary, which ends in zeroes.
func before(id uuid.UUID) uuid.UUID {
	for i := len(id) - 1; i >= 0; i-- {
		id[i]--
		if id[i] != 0xff {
			break
		}
	}
	return id
}

func unlessBusy(err error) error {
	if lockBusy(err) {
		return nil
	}
	return err
}

// lockBusy tells a lock that was not waited for any longer.
func lockBusy(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && pg.Code == "55P03"
}
