package relay

import (
	"context"
	"time"

	"github.com/backend-skeleton/relay/internal/outbox"
	"github.com/backend-skeleton/relay/messaging"
)

// Retention is what becomes of published rows, and how much of the database's time that may take.
type Retention struct {
	// Published rows; a Keep of zero keeps them for ever.
	Published outbox.Retention
	// Archived is how long a row is kept in the archive; zero keeps it for ever.
	Archived time.Duration
	// Share is the most of its time that the retention works while this relay claims rows or its statements are slow.
	// Default 0.25.
	Share float64
}

const (
	// busyFor is how long after a claim that found rows this relay counts as busy.
	busyFor = time.Second
	// slowStatement tells that the database has other things to do.
	slowStatement = 100 * time.Millisecond
	// longestYield keeps the lease of the task alive, and lets the retention go on whatever the load is: a table that
	// is never cleaned while there is work is cleaned never.
	longestYield = 10 * time.Second
)

// retain removes published rows whose retention time is over, and archived ones, and keeps the ranges of a partitioned
// outbox, which are needed where published rows stay for ever, too.
func (r *Relay) retain(ctx context.Context) {
	c := r.c.Retention
	every := time.Minute
	if c.Published.Keep > 0 {
		every = min(max(c.Published.Keep/100, time.Second), time.Minute)
	}
	timer := time.NewTimer(every)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		r.tellRetention(ctx, "ranges", r.c.Store.TendRanges(ctx, c.Published, r.afterPage(ctx, "outbox")))
		if c.Published.Keep > 0 {
			_, err := r.c.Store.Prune(ctx, c.Published, r.afterPage(ctx, "outbox"))
			r.tellRetention(ctx, "retention", err)
		}
		if c.Published.Keep > 0 && c.Archived > 0 {
			_, err := r.c.Store.PruneArchive(ctx, c.Archived, c.Published.Batch, r.afterPage(ctx, "archive"))
			r.tellRetention(ctx, "retention of the archive", err)
		}
		timer.Reset(every)
	}
}

func (r *Relay) tellRetention(ctx context.Context, operation string, err error) {
	if err != nil && ctx.Err() == nil {
		r.c.Hooks.Trouble(operation, err)
	}
}

// afterPage tells of a page and waits before the next one.
func (r *Relay) afterPage(ctx context.Context, table string) func(outbox.Page) {
	return func(p outbox.Page) {
		if p.Rows > 0 {
			r.c.Hooks.Pruned(table, p.Rows)
		}
		busy := r.since()-time.Duration(r.claimed.Load()) < busyFor
		if wait := yield(p.Took, busy, r.c.Retention.Share); wait > 0 {
			select {
			case <-time.After(wait):
			case <-ctx.Done():
			}
		}
	}
}

// yield is how long the retention leaves the database to others after a page.
func yield(took time.Duration, busy bool, share float64) time.Duration {
	if !busy && took < slowStatement {
		return 0
	}
	return min(time.Duration(float64(took)*(1/share-1)), longestYield)
}

// yieldToClaims remembers when rows were last claimed.
func (r *Relay) yieldToClaims() {
	r.claimed.Store(-int64(busyFor)) // not yet
	told := r.c.Hooks.Claimed
	r.c.Hooks.Claimed = func(d messaging.DestinationName, rows int, took time.Duration) {
		if rows > 0 {
			r.claimed.Store(int64(r.since()))
		}
		told(d, rows, took)
	}
}
