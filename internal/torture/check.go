package torture

import (
	"fmt"
	"slices"
	"time"
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
	Unexplained Rule = "unexplained" // delivered again without a record of doubt before that
	Illegal     Rule = "illegal"     // a state, or a step from one to another, that must not be
	Early       Rule = "early"       // delivered before it was due
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
		delivered: make(map[string][]time.Time, len(h.Written)),
	}
	for i := range h.Written {
		c.written[h.Written[i].ID] = &h.Written[i]
	}
	for i := range h.Rows {
		c.rows[h.Rows[i].ID] = &h.Rows[i]
	}
	c.absences()
	c.deliveries()
	c.dues()
	c.ends()
	c.copies()
	c.order()
	for i := range h.Rows {
		c.row(&h.Rows[i])
	}
	for i := range h.Changes {
		c.change(&h.Changes[i])
	}
	c.crashes()
	return c.found
}

type checker struct {
	h         *History
	written   map[string]*Written
	rows      map[string]*Row
	delivered map[string][]time.Time // in order of arrival
	away      map[string][]absence
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
		c.delivered[d.ID] = append(c.delivered[d.ID], d.At)
		w := c.written[d.ID]
		switch {
		case w == nil:
			c.report(Invented, d.ID, "delivered, and nobody wrote it")
		case !c.committed(w):
			c.report(Invented, d.ID, "delivered, and its transaction was not committed")
		case w.Bad:
			c.report(Invented, d.ID, "delivered, though no broker may see it")
		case d.Destination != w.Destination:
			c.report(Changed, d.ID, "written for %s, delivered to %s", w.Destination, d.Destination)
		case d.Key != w.Key || d.Digest != w.Digest:
			c.report(Changed, d.ID, "not delivered as it was written")
		}
	}
}

// dues: a scheduled row is not delivered before its moment. One that an operator has redriven is due at once.
func (c *checker) dues() {
	redriven := map[string]bool{}
	for i := range c.h.Changes {
		if s := &c.h.Changes[i]; s.From == "PARKED" {
			redriven[s.ID] = true
		}
	}
	for i := range c.h.Written {
		w := &c.h.Written[i]
		for _, at := range c.delivered[w.ID] {
			if w.Scheduled && at.Before(w.Due) && !redriven[w.ID] {
				c.report(Early, w.ID, "delivered %v before it was due", w.Due.Sub(at))
			}
		}
	}
}

// ends: what was committed is in the table and delivered.
func (c *checker) ends() {
	for i := range c.h.Written {
		w := &c.h.Written[i]
		r, n := c.rows[w.ID], len(c.delivered[w.ID])
		switch {
		case !c.committed(w):
			if r != nil {
				c.report(Invented, w.ID, "in the table, and its transaction was rolled back")
			}
		case r == nil:
			c.report(Lost, w.ID, "its row is gone after %d deliveries", n)
		case w.Bad:
			if r.Status != "PARKED" {
				c.report(Unfinished, w.ID, "%s after %d attempts, though nobody can take it", r.Status, r.Attempts)
			}
		case r.Status == "PUBLISHED" && n == 0:
			c.report(Lost, w.ID, "PUBLISHED, and never delivered")
		case r.Status == "PARKED":
			c.report(Unfinished, w.ID, "PARKED by %s after %d attempts and %d crashes", r.Code, r.Attempts, r.CrashAttempts)
		case r.Status != "PUBLISHED":
			c.report(Unfinished, w.ID, "%s after %d attempts and %d deliveries", r.Status, r.Attempts, n)
		}
	}
	for id := range c.rows {
		if c.written[id] == nil {
			c.report(Invented, id, "in the table, and nobody wrote it")
		}
	}
}

// copies: before a row is published again, the table says that it may have been delivered.
func (c *checker) copies() {
	doubts := map[string][]time.Time{}
	for i := range c.h.Changes {
		if s := &c.h.Changes[i]; s.Ambiguous > 0 {
			doubts[s.ID] = append(doubts[s.ID], s.At)
		}
	}
	for id, at := range c.delivered {
		at, doubts := slices.SortedFunc(slices.Values(at), time.Time.Compare), doubts[id]
		for n := 1; n < len(at); n++ {
			if len(doubts) < n || doubts[n-1].After(at[n]) {
				known := 0
				for known < len(doubts) && !doubts[known].After(at[n]) {
					known++
				}
				c.report(Unexplained, id, "delivered %d times, and in doubt %d times before the last of them", n+1, known)
				break
			}
		}
	}
}
