package torture

import (
	"maps"
	"math"
	"slices"
	"time"
)

// order: of two rows of a key that were not written at the same time, the first to be written is the first to be
// delivered.
func (c *checker) order() {
	first := map[[2]string][]arrival{} // by destination and key, in order of first delivery
	seen := make(map[string]bool, len(c.written))
	for i := range c.h.Deliveries {
		d := &c.h.Deliveries[i]
		w := c.written[d.ID]
		if seen[d.ID] || w == nil || w.Key == "" {
			continue
		}
		seen[d.ID] = true
		k := [2]string{w.Destination, w.Key}
		a := arrival{Written: w, at: d.At, seq: math.MaxInt64}
		if r := c.rows[d.ID]; r != nil {
			a.seq = r.Seq
		}
		first[k] = append(first[k], a)
	}
	for k := range maps.Keys(first) {
		c.keyOrder(first[k])
	}
}

// arrival is a row's first delivery.
type arrival struct {
	*Written
	at  time.Time
	seq int64
}

// earliest of the rows that were delivered later, in three senses.
type earliest struct {
	ended  *arrival            // whose transaction ended first
	locked *arrival            // the least seq under the key's lock
	places map[int64]*arrival  // by transaction, the first row of it
	loose  map[string]*arrival // those that stood out of line for a while: each is compared by itself
}

// keyOrder looks at each row's first delivery from the last one backwards: a row is in disorder if one that was
// delivered after it had to come first.
func (c *checker) keyOrder(rows []arrival) {
	e := earliest{places: map[int64]*arrival{}, loose: map[string]*arrival{}}
	for i := len(rows) - 1; i >= 0; i-- {
		w := &rows[i]
		later := []*arrival{e.ended, e.locked, e.places[w.Began]}
		later = slices.AppendSeq(later, maps.Values(e.loose))
		for _, l := range later {
			if how := mustWait(w, l); how != "" && !c.outOfLine(l, w) {
				c.found = append(c.found, Violation{Rule: Disorder, ID: w.ID, Other: l.ID, Detail: "delivered before message " + l.ID + ", " + how})
				break
			}
		}
		if len(c.away[w.ID]) > 0 {
			e.loose[w.ID] = w
			continue
		}
		if e.ended == nil || w.Ended < e.ended.Ended {
			e.ended = w
		}
		if w.Locked && (e.locked == nil || w.seq < e.locked.seq) {
			e.locked = w
		}
		if p := e.places[w.Began]; p == nil || w.Place < p.Place {
			e.places[w.Began] = w
		}
	}
}

// mustWait tells why a row has to wait for one that was delivered after it; nothing if it has not.
func mustWait(w, first *arrival) string {
	switch {
	case first == nil:
		return ""
	case first.Began == w.Began && first.Place < w.Place:
		return "of the same transaction"
	case first.Ended < w.Began:
		return "committed before this one was begun"
	case first.Locked && w.Locked && first.seq < w.seq:
		return "committed before this one was inserted, by the key's lock"
	default:
		return ""
	}
}

// absence is a time in which a row did not stand in the line of its key: scheduled and not due yet, or parked where that
// lets the key go on. Nothing waits for it meanwhile; it waits for what was written before it all the same.
type absence struct{ from, to time.Time }

// forever is later than every run.
var forever = time.Unix(1<<40, 0)

// entering is how long it may take a row that comes back into the line until it is there: the change is noted before its
// commit, and a server may stand still between the two.
const entering = 10 * time.Second

// outOfLine tells whether a row was away at some time while the other one, written later, was on its way. What was written
// long after the row had come back must wait for it.
func (c *checker) outOfLine(row, other *arrival) bool {
	return slices.ContainsFunc(c.away[row.ID], func(a absence) bool {
		return !a.from.After(other.at) && !other.From.After(a.to.Add(entering))
	})
}

// absences of all rows.
func (c *checker) absences() {
	c.away = map[string][]absence{}
	for i := range c.h.Written {
		if c.h.Written[i].Scheduled {
			c.away[c.h.Written[i].ID] = []absence{{to: forever}}
		}
	}
	for i := range c.h.Changes {
		s := &c.h.Changes[i]
		if list := c.away[s.ID]; len(list) > 0 && list[len(list)-1].to.Equal(forever) {
			list[len(list)-1].to = s.At
		}
		if w := c.written[s.ID]; s.To == "PARKED" && w != nil && (s.Skipped || c.h.Skips[w.Destination]) {
			c.away[s.ID] = append(c.away[s.ID], absence{from: s.At, to: forever})
		}
	}
}
