package torture

import (
	"fmt"
	"slices"
	"time"
)

// moment is something that happened to a message.
type moment struct {
	at   time.Time
	what string
}

// timeline tells everything that is known of the messages of violations, for whoever looks for the cause.
func (h *History) timeline(of []Violation) map[string][]moment {
	lines := map[string][]moment{}
	for _, v := range of[:min(len(of), 100)] {
		lines[v.ID], lines[v.Other] = nil, nil
	}
	note := func(id string, at time.Time, format string, args ...any) {
		if _, wanted := lines[id]; wanted {
			lines[id] = append(lines[id], moment{at, fmt.Sprintf(format, args...)})
		}
	}
	for i := range h.Written {
		w := &h.Written[i]
		note(w.ID, w.At, "written for %s, key %q, place %d, scheduled: %v", w.Destination, w.Key, w.Place, w.Scheduled)
	}
	for i := range h.Changes {
		c := &h.Changes[i]
		note(c.ID, c.At, "%s -> %s %s by %s", c.From, c.To, c.Code, c.By)
	}
	for i := range h.Deliveries {
		note(h.Deliveries[i].ID, h.Deliveries[i].At, "delivered")
	}
	for id := range lines {
		slices.SortStableFunc(lines[id], func(a, b moment) int { return a.at.Compare(b.at) })
	}
	return lines
}
