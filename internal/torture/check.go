package torture

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
)

// Rule is a promise that a history can break.
type Rule string

// The rules.
const (
	Lost        Rule = "lost"        // published or gone without a delivery
	Unfinished  Rule = "unfinished"  // neither published nor parked though all is well again
	Invented    Rule = "invented"    // delivered or stored, and never committed
	Changed     Rule = "changed"     // an id, a key or a byte is another
	Disorder    Rule = "disorder"    // first deliveries of a key are not in the order of its writers
	Unexplained Rule = "unexplained" // more deliveries than the row has records of doubt
	Illegal     Rule = "illegal"     // a state, or a step from one to another, that must not be
	Attempts    Rule = "attempts"    // out of bounds
	Unfenced    Rule = "unfenced"    // written by a process that did not hold the row's lane
)

// Violation is one broken promise.
type Violation struct {
	Rule   Rule
	ID     string // of the message
	Detail string
	// Other is the message that it is compared with, if any.
	Other string
}

func (v Violation) String() string { return fmt.Sprintf("%s: message %s: %s", v.Rule, v.ID, v.Detail) }

// Check compares what was written with what was delivered and with what the table says. It gives everything that no
// correct fleet could have done, in no particular order of importance.
func Check(h *History) []Violation {
	c := checker{
		h: h, written: make(map[string]*Written, len(h.Written)), rows: make(map[string]*Row, len(h.Rows)),
		delivered: make(map[string]int, len(h.Written)),
	}
	for i := range h.Written {
		c.written[h.Written[i].ID] = &h.Written[i]
	}
	for i := range h.Rows {
		c.rows[h.Rows[i].ID] = &h.Rows[i]
	}
	c.deliveries()
	c.ends()
	c.order()
	for i := range h.Rows {
		c.row(&h.Rows[i])
	}
	for i := range h.Changes {
		c.change(&h.Changes[i])
	}
	return c.found
}

type checker struct {
	h         *History
	written   map[string]*Written
	rows      map[string]*Row
	delivered map[string]int
	found     []Violation
}

func (c *checker) report(rule Rule, id, format string, args ...any) {
	c.found = append(c.found, Violation{Rule: rule, ID: id, Detail: fmt.Sprintf(format, args...)})
}

// committed tells whether the row is one that must be delivered.
func (c *checker) committed(w *Written) bool {
	return w.Fate == Committed || (w.Fate == Unknown && c.rows[w.ID] != nil)
}

// deliveries: nothing but what was committed, and every byte of it as it was.
func (c *checker) deliveries() {
	for _, d := range c.h.Deliveries {
		c.delivered[d.ID]++
		w := c.written[d.ID]
		switch {
		case w == nil:
			c.report(Invented, d.ID, "delivered, and nobody wrote it")
		case !c.committed(w):
			c.report(Invented, d.ID, "delivered, and its transaction was not committed")
		case d.Destination != w.Destination:
			c.report(Changed, d.ID, "written for %s, delivered to %s", w.Destination, d.Destination)
		case d.Key != w.Key || d.Digest != w.Digest:
			c.report(Changed, d.ID, "not delivered as it was written")
		}
	}
}

// ends: what was committed is in the table and delivered, as often as the row explains.
func (c *checker) ends() {
	for i := range c.h.Written {
		w := &c.h.Written[i]
		r, n := c.rows[w.ID], c.delivered[w.ID]
		switch {
		case !c.committed(w):
			if r != nil {
				c.report(Invented, w.ID, "in the table, and its transaction was rolled back")
			}
			continue
		case r == nil:
			c.report(Lost, w.ID, "its row is gone after %d deliveries", n)
			continue
		case r.Status == "PUBLISHED" && n == 0:
			c.report(Lost, w.ID, "PUBLISHED, and never delivered")
		case r.Status == "PARKED":
			c.report(Unfinished, w.ID, "PARKED by %s after %d attempts and %d crashes", r.Code, r.Attempts, r.CrashAttempts)
		case r.Status != "PUBLISHED":
			c.report(Unfinished, w.ID, "%s after %d attempts and %d deliveries", r.Status, r.Attempts, n)
		}
		if n-1 > int(r.Ambiguous) {
			c.report(Unexplained, w.ID, "%d deliveries, %d records of doubt", n, r.Ambiguous)
		}
	}
	for id := range c.rows {
		if c.written[id] == nil {
			c.report(Invented, id, "in the table, and nobody wrote it")
		}
	}
}

// order: of two rows of a key whose writers did not overlap, the first to be written is the first to be delivered.
func (c *checker) order() {
	first := map[[2]string][]*Written{} // by destination and key, in order of first delivery
	seen := make(map[string]bool, len(c.written))
	for _, d := range c.h.Deliveries {
		w := c.written[d.ID]
		if seen[d.ID] || w == nil || w.Key == "" {
			continue
		}
		seen[d.ID] = true
		k := [2]string{w.Destination, w.Key}
		first[k] = append(first[k], w)
	}
	for k := range maps.Keys(first) {
		c.keyOrder(first[k])
	}
}

// keyOrder looks at each row's first delivery from the last one backwards: a row is in disorder if one that was
// delivered after it had been written completely before its own transaction began, or before it in the same one.
func (c *checker) keyOrder(rows []*Written) {
	var earliest *Written // of those delivered later, the one whose transaction ended first
	places := map[int64]*Written{}
	for _, w := range slices.Backward(rows) {
		if later := places[w.Began]; later != nil && later.Place < w.Place {
			c.disorder(w, later, "of the same transaction")
		} else if earliest != nil && earliest.Ended < w.Began {
			c.disorder(w, earliest, "committed before this one was begun")
		}
		if w.Scheduled {
			continue // nothing has to wait for it
		}
		if earliest == nil || cmp.Compare(w.Ended, earliest.Ended) < 0 {
			earliest = w
		}
		if p := places[w.Began]; p == nil || w.Place < p.Place {
			places[w.Began] = w
		}
	}
}

func (c *checker) disorder(w, earlier *Written, how string) {
	c.found = append(c.found, Violation{Rule: Disorder, ID: w.ID, Other: earlier.ID, Detail: "delivered before message " + earlier.ID + ", " + how})
}
