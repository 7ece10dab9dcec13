package outbox

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/backend-skeleton/relay/internal/outbox/outboxdb"
)

// Stats is what the outbox holds.
type Stats struct {
	// AsOf is the moment, by the database clock.
	AsOf time.Time
	// Destinations in the order of their names. The one without a name holds the rows of all destinations that no file
	// names; it is missing where there are none.
	Destinations []DestinationStats
}

// DestinationStats is what the outbox holds for one destination.
type DestinationStats struct {
	Destination string
	// Rows by state. They are exact unless Estimated is set, which happens to large numbers: then PENDING and PUBLISHED
	// are estimates and the others lower bounds.
	Rows      map[State]int64
	Estimated bool
	// Leased rows are in the window of a live relay.
	Leased int64
	// Oldest is the age of the oldest row that waits to be published, 0 for none.
	Oldest time.Duration
	// Served tells that a live relay serves the destination.
	Served bool
	// Paused is the reason of a pause, empty for none.
	Paused string
	// Lanes by FREE, LEASED and EXPIRED.
	Lanes map[string]int64
}

const (
	// exactPages is the size up to which published rows are counted: 128 MiB, a fraction of a second.
	exactPages = 16384
	// exactRows bounds how many open rows of a kind are looked at, shared out among the lanes.
	exactRows = 200_000
)

// defaultTTL serves tools that hold no lease: a relay that was not heard of for so long does not live.
const defaultTTL = 30 * time.Second

// Stats counts. Its cost is bounded, whatever the table holds. It is several statements, so that a row which moves
// meanwhile may be seen twice or not at all.
func (s *Store) Stats(ctx context.Context) (Stats, error) {
	c := counter{lanes: map[int32]string{}, found: map[string]*DestinationStats{}}
	var out Stats
	err := s.do(ctx, "count rows", func(ctx context.Context, q *outboxdb.Queries) error {
		c.reset()
		if err := c.countLanes(ctx, q, cmp.Or(s.c.LeaseTTL, defaultTTL)); err != nil {
			return err
		}
		if err := c.countOpen(ctx, q, max(exactRows/int64(max(len(c.lanes), 1)), 100)); err != nil {
			return err
		}
		if err := c.markPaused(ctx, q); err != nil {
			return err
		}
		size, err := q.TablePages(ctx)
		if err != nil {
			return err
		}
		out.AsOf = size.Now
		if size.Pages <= exactPages {
			return c.countPublished(ctx, q)
		}
		return c.estimatePublished(ctx, q)
	})
	if err != nil {
		return Stats{}, err
	}
	out.Destinations = c.sorted()
	return out, nil
}

// markPaused names the reason of a pause of a registered destination.
func (c *counter) markPaused(ctx context.Context, q *outboxdb.Queries) error {
	rows, err := q.Pauses(ctx)
	for _, r := range rows {
		if d := c.found[r.Name]; d != nil {
			d.Paused = cmp.Or(r.Reason, "no reason given")
		}
	}
	return err
}

// counter gathers by destination what the statements say by lane.
type counter struct {
	lanes map[int32]string
	found map[string]*DestinationStats
}

func (c *counter) reset() {
	clear(c.lanes)
	clear(c.found)
}

func (c *counter) of(destination string) *DestinationStats {
	d := c.found[destination]
	if d == nil {
		d = &DestinationStats{Destination: destination, Rows: map[State]int64{}, Lanes: map[string]int64{}}
		c.found[destination] = d
	}
	return d
}

func (c *counter) countLanes(ctx context.Context, q *outboxdb.Queries, ttl time.Duration) error {
	lanes, err := q.LaneStates(ctx)
	if err != nil {
		return err
	}
	for _, l := range lanes {
		c.lanes[l.Lane] = l.Destination
		d := c.of(l.Destination)
		d.Leased += l.Leased
		switch {
		case l.Live:
			d.Lanes["LEASED"]++
		case l.Owned:
			d.Lanes["EXPIRED"]++
		default:
			d.Lanes["FREE"]++
		}
	}
	served, err := q.ServedNow(ctx, ttl)
	for _, name := range served {
		c.of(name).Served = true
	}
	return err
}

// countOpen looks at no more than most rows of a lane and kind.
func (c *counter) countOpen(ctx context.Context, q *outboxdb.Queries, most int64) error {
	pending, err := q.CountPending(ctx, most)
	if err != nil {
		return err
	}
	for _, p := range pending {
		c.add(p.Lane, Pending, p.Rows, p.Estimated, p.OldestSeconds)
	}
	waiting, err := q.CountWaiting(ctx, most)
	for _, w := range waiting {
		c.add(w.Lane, State(w.Status), w.Rows, w.Estimated, w.OldestSeconds)
	}
	return err
}

// add counts rows of a lane; a lane that is not registered belongs to a destination that no file names.
func (c *counter) add(lane int32, s State, rows int64, estimated bool, oldestSeconds float64) {
	d := c.of(c.lanes[lane])
	d.Rows[s] += rows
	d.Estimated = d.Estimated || estimated
	d.Oldest = max(d.Oldest, time.Duration(oldestSeconds*float64(time.Second)))
}

func (c *counter) countPublished(ctx context.Context, q *outboxdb.Queries) error {
	published, err := q.CountPublished(ctx)
	for _, p := range published {
		c.add(p.Lane, Published, p.Rows, false, 0)
	}
	return err
}

// estimatePublished takes what is open from the planner's guess of all rows.
func (c *counter) estimatePublished(ctx context.Context, q *outboxdb.Queries) error {
	for _, d := range c.found {
		d.Estimated = true
	}
	guesses, err := q.EstimateRows(ctx)
	for _, g := range guesses {
		d, registered := c.found[g.Destination]
		if !registered {
			continue
		}
		for _, open := range d.Rows {
			g.Rows -= open
		}
		d.Rows[Published] = max(g.Rows, 0)
	}
	return err
}

func (c *counter) sorted() []DestinationStats {
	out := make([]DestinationStats, 0, len(c.found))
	for _, d := range c.found {
		out = append(out, *d)
	}
	slices.SortFunc(out, func(a, b DestinationStats) int { return strings.Compare(a.Destination, b.Destination) })
	return out
}
