package outbox

import (
	"bytes"
	"context"
	"encoding/binary"
	"time"

	"github.com/google/uuid"

	"github.com/backend-skeleton/relay/internal/outbox/outboxdb"
)

const (
	retentionTask = "retention"
	archiveTask   = "archive"
)

// DefaultPruneBatch is the most rows that one statement of the retention looks at.
const DefaultPruneBatch = 5000

// leastBatch is the smallest page: below it the round trips cost more than the rows.
const leastBatch = 100

// A page that takes longer than slowPage is followed by one of half the rows, one that is quicker than quickPage by one of
// twice as many. Locks and the log are then kept busy for moments only, whatever rows and disk are like.
const (
	slowPage  = 100 * time.Millisecond
	quickPage = 25 * time.Millisecond
)

// fastClock is how far ahead of the database an id's time must be, so that its row is looked for apart from the others.
const fastClock = time.Minute

// Retention says what becomes of PUBLISHED rows.
type Retention struct {
	// Keep is how long a row stays after it was published.
	Keep time.Duration
	// Archive moves rows into messaging_outbox_archive instead of deleting them.
	Archive bool
	// Batch is the most rows of a statement; default [DefaultPruneBatch].
	Batch int
}

// Page is one step of the retention.
type Page struct {
	// Rows that were deleted or moved.
	Rows int64
	// Took is what the statement took.
	Took time.Duration
}

// Prune removes the rows that have been PUBLISHED for longer than the retention time, a page in primary-key order at a
// time, until the end or until ctx ends. Nothing but PUBLISHED rows goes, and a row that is archived is in the archive at
// the moment in which it is gone. One process of the fleet does it at a time, the others give back false. The place is
// kept in the same statement that removes, so that a crash loses no progress. after is called with each page and may wait,
// for less than a minute.
func (s *Store) Prune(ctx context.Context, r Retention, after func(Page)) (mine bool, err error) {
	return s.withTask(ctx, retentionTask, func(t task) error {
		due := dueIDs(t.began, r.Keep)
		if !r.Archive {
			ranges, err := s.ranges(ctx)
			if err != nil {
				return err
			}
			due[0] = wholeRanges(due[0], ranges)
		}
		return s.sweep(ctx, t, due, r.Batch, after, func(ctx context.Context, q *outboxdb.Queries, p outboxdb.PrunePageParams) (outboxdb.PrunePageRow, error) {
			p.Keep = r.Keep
			if !r.Archive {
				return q.PrunePage(ctx, p)
			}
			row, err := q.ArchivePage(ctx, outboxdb.ArchivePageParams(p))
			return outboxdb.PrunePageRow(row), err
		})
	})
}

// PruneArchive deletes the rows that have been in the archive for longer than keep, in the way of [Store.Prune].
func (s *Store) PruneArchive(ctx context.Context, keep time.Duration, batch int, after func(Page)) (mine bool, err error) {
	return s.withTask(ctx, archiveTask, func(t task) error {
		return s.sweep(ctx, t, dueIDs(t.began, keep), batch, after, func(ctx context.Context, q *outboxdb.Queries, p outboxdb.PrunePageParams) (outboxdb.PrunePageRow, error) {
			p.Keep = keep
			row, err := q.PruneArchivePage(ctx, outboxdb.PruneArchivePageParams(p))
			return outboxdb.PrunePageRow(row), err
		})
	})
}

// pageQuery is one of the statements that remove a page.
type pageQuery func(context.Context, *outboxdb.Queries, outboxdb.PrunePageParams) (outboxdb.PrunePageRow, error)

// sweep goes through the intervals page by page, from the task's place on.
func (s *Store) sweep(ctx context.Context, t task, intervals []interval, batch int, after func(Page), query pageQuery) error {
	if batch <= 0 {
		batch = DefaultPruneBatch
	}
	step := batch
	for _, in := range intervals {
		in.after = later(in.after, t.placeID())
		for in.holdsAny() && ctx.Err() == nil {
			var row outboxdb.PrunePageRow
			began := time.Now()
			err := s.do(ctx, "remove old rows", func(ctx context.Context, q *outboxdb.Queries) (err error) {
				row, err = query(ctx, q, outboxdb.PrunePageParams{
					Task: t.name, Owner: s.c.Owner, After: in.after, Before: in.before, Step: int32(step), Ttl: taskLease,
				})
				return err
			})
			if err != nil || !row.Mine {
				return err
			}
			took := time.Since(began)
			after(Page{Rows: row.Gone, Took: took})
			if row.Seen < int64(step) {
				break
			}
			in.after = row.Last
			step = nextStep(step, batch, took)
		}
	}
	if ctx.Err() == nil { // else the place stays where it is
		_, err := s.save(ctx, t, "")
		return err
	}
	return nil
}

// placeID is the id that the task got to; the first one for none, or for one that a hand wrote.
func (t task) placeID() uuid.UUID {
	id, err := uuid.Parse(t.place)
	if err != nil {
		return uuid.Nil
	}
	return id
}

func nextStep(step, most int, took time.Duration) int {
	switch {
	case took > slowPage:
		return max(step/2, min(leastBatch, most))
	case took < quickPage:
		return min(step*2, most)
	}
	return step
}

// interval of ids, without its ends.
type interval struct{ after, before uuid.UUID }

func (i interval) holdsAny() bool { return bytes.Compare(i.after[:], i.before[:]) < 0 }

func later(a, b uuid.UUID) uuid.UUID {
	if bytes.Compare(a[:], b[:]) < 0 {
		return b
	}
	return a
}

// dueIDs are the ids among which rows can be that were finished keep before now. Ids begin with the milliseconds of their
// making, so those in between are too young; those from the future come from a clock that is wrong and tell nothing.
func dueIDs(now time.Time, keep time.Duration) []interval {
	return []interval{{uuid.Nil, idAt(now.Add(-keep))}, {idAt(now.Add(fastClock)), uuid.Max}}
}

// idAt is smaller than every id that is made at t or later, and greater than every earlier one.
func idAt(t time.Time) (id uuid.UUID) {
	binary.BigEndian.PutUint64(id[:8], uint64(max(t.UnixMilli(), 0))<<16)
	return id
}
