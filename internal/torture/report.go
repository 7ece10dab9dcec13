package torture

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/backend-skeleton/relay/internal/outbox"
)

// Report is what a run came to.
type Report struct {
	Seed            uint64
	Versions        []string // of the servers
	Plan            Plan
	Length, Settled time.Duration
	Faults          map[string]int // of the nemesis, by kind and target
	Operations      map[outbox.Verb]int
	Starts, Exits   int      // of relays; exits that nobody asked for
	Panics          []string // logs of relays that panicked

	Transactions, RolledBack, Unanswered int
	Written, Keyless, Scheduled          int // rows that were committed
	Locked, Bad                          int
	Delivered, Duplicates                int
	Doubted, RelayLost, Refused, Held    int // changes of rows
	Parked                               int // by relays
	PerDestination                       map[string]int

	Violations []Violation
	timeline   map[string][]moment
}

// OK tells whether every promise was kept.
func (r *Report) OK() bool { return len(r.Violations) == 0 && len(r.Panics) == 0 }

func (r *Report) judge(h *History) {
	r.Violations = Check(h)
	r.timeline = h.timeline(r.Violations)
	r.PerDestination = map[string]int{}
	stored := make(map[string]bool, len(h.Rows))
	for i := range h.Rows {
		stored[h.Rows[i].ID] = true
	}
	for i := range h.Written {
		w := &h.Written[i]
		if w.Place == 0 {
			r.Transactions++
			switch w.Fate {
			case RolledBack:
				r.RolledBack++
			case Unknown:
				r.Unanswered++
			}
		}
		if !stored[w.ID] {
			continue
		}
		r.Written++
		r.PerDestination[w.Destination]++
		if w.Key == "" {
			r.Keyless++
		}
		if w.Scheduled {
			r.Scheduled++
		}
		if w.Locked {
			r.Locked++
		}
		if w.Bad {
			r.Bad++
		}
	}
	seen := make(map[string]bool, len(h.Deliveries))
	for i := range h.Deliveries {
		if seen[h.Deliveries[i].ID] {
			r.Duplicates++
		}
		seen[h.Deliveries[i].ID] = true
	}
	r.Delivered = len(seen)
	for i := range h.Changes {
		c := &h.Changes[i]
		switch {
		case c.To == "AMBIGUOUS" && c.Ambiguous > 0 && c.Attempts == 0:
			r.RelayLost++
		case c.To == "AMBIGUOUS" && c.Ambiguous > 0:
			r.Doubted++
		case c.To == "HELD":
			r.Held++
		case c.To == "PARKED" && c.By != Operator:
			r.Parked++
		case (c.To == "RETRYABLE_FAILURE" || c.To == "AMBIGUOUS") && c.Attempts > 0:
			r.Refused++
		}
	}
}

// Broken counts the violations of each rule.
func (r *Report) Broken() map[Rule]int {
	n := map[Rule]int{}
	for _, v := range r.Violations {
		n[v.Rule]++
	}
	return n
}

func (r *Report) String() string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	broken := r.Broken()
	line("seed                 %d", r.Seed)
	line("versions             %s", strings.Join(r.Versions, ", "))
	line("length               %v, and %v until all was published", r.Length, r.Settled)
	line("transactions         %d (%d rolled back, %d whose commit was never answered)", r.Transactions, r.RolledBack, r.Unanswered)
	line("rows committed       %d (%d without key, %d under their key's lock, %d scheduled, %d too large)", r.Written, r.Keyless, r.Locked, r.Scheduled, r.Bad)
	for _, d := range slices.Sorted(maps.Keys(r.PerDestination)) {
		line("  %-18s %d", d, r.PerDestination[d])
	}
	line("rows delivered       %d", r.Delivered)
	line("duplicates           %d, of which unexplained: %d rows", r.Duplicates, broken[Unexplained])
	line("lost                 %d", broken[Lost])
	line("unfinished           %d", broken[Unfinished])
	line("order breaks         %d", broken[Disorder])
	line("changed              %d", broken[Changed])
	line("invented             %d", broken[Invented])
	line("delivered early      %d", broken[Early])
	line("illegal states       %d", broken[Illegal])
	line("attempts off         %d", broken[Attempts])
	line("written unfenced     %d", broken[Unfenced])
	line("changes              %d ambiguous, %d lost with their relay, %d refused, %d held, %d parked", r.Doubted, r.RelayLost, r.Refused, r.Held, r.Parked)
	line("operator             %d retried, %d parked, %d skipped, %d redriven", r.Operations[outbox.Retry], r.Operations[outbox.Park], r.Operations[outbox.Skip], r.Operations[outbox.Redrive])
	line("relays               %d starts, %d unasked exits, %d panics", r.Starts, r.Exits, len(r.Panics))
	var faults []string
	for _, f := range slices.Sorted(maps.Keys(r.Faults)) {
		faults = append(faults, fmt.Sprintf("%s %d", f, r.Faults[f]))
	}
	line("schedule             %d steps", len(r.Plan))
	line("faults               %s", strings.Join(faults, ", "))
	shown := map[Rule]int{}
	for _, v := range r.Violations {
		if shown[v.Rule]++; shown[v.Rule] <= 5 {
			line("! %s", v)
			for _, id := range []string{v.ID, v.Other} {
				for _, m := range r.timeline[id] {
					line("    %s  %s %s", m.at.Format("15:04:05.000"), id, m.what)
				}
			}
		}
	}
	for _, p := range r.Panics {
		line("! a relay panicked: %s", p)
	}
	return b.String()
}
