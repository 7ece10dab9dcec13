package torture

import (
	"slices"
	"testing"
)

// wellDone is a short history without a fault: a plain row, one in doubt that came twice, one whose commit was never
// answered, one that was rolled back, two of one transaction, and a scheduled one.
func wellDone() *History {
	w := func(id string, began, ended int64, place int) Written {
		return Written{ID: id, Destination: "d", Key: "k", Digest: "#" + id, Began: began, Ended: ended, Place: place}
	}
	h := &History{
		Attempts: map[string]int32{"d": 5},
		Written:  []Written{w("a", 1, 2, 0), w("b", 3, 4, 0), w("c", 5, Never, 0), w("gone", 6, 7, 0), w("e", 8, 9, 0), w("f", 8, 9, 1), w("late", 8, 9, 2), w("g", 10, 11, 0)},
	}
	h.Written[2].Fate, h.Written[3].Fate, h.Written[6].Scheduled = Unknown, RolledBack, true
	for _, id := range []string{"a", "b", "b", "e", "c", "f", "g", "late"} { // c overlaps with whatever came after it
		h.Deliveries = append(h.Deliveries, Delivery{ID: id, Destination: "d", Key: "k", Digest: "#" + id})
	}
	for _, id := range []string{"a", "b", "c", "e", "f", "late", "g"} {
		h.Rows = append(h.Rows, Row{ID: id, Destination: "d", Status: "PUBLISHED", Outcome: "CONFIRMED", Attempts: 1, PublishedAt: true})
		h.Changes = append(h.Changes, Change{ID: id, From: "PENDING", To: "PUBLISHED", Attempts: 1, By: "r1", Holder: "r1", VersionAfter: 1})
	}
	h.Rows[1].Ambiguous, h.Rows[1].Doubted, h.Rows[1].Attempts = 1, true, 2
	h.Changes[1] = Change{ID: "b", From: "PENDING", To: "AMBIGUOUS", Attempts: 1, Ambiguous: 1, By: "r1", Holder: "r1", VersionAfter: 1}
	h.Changes = append(h.Changes, Change{ID: "b", From: "AMBIGUOUS", To: "PUBLISHED", Attempts: 1, By: "r2", Holder: "r1", VersionBefore: 1, VersionAfter: 2})
	return h
}

func TestCheckFindsNothingInAGoodHistory(t *testing.T) {
	t.Parallel()
	if found := Check(wellDone()); len(found) > 0 {
		t.Error(found)
	}
}

// Each planted fault must be found, and as what it is.
func TestCheckFindsPlantedFaults(t *testing.T) {
	t.Parallel()
	drop := func(h *History, id string) {
		h.Deliveries = slices.DeleteFunc(h.Deliveries, func(d Delivery) bool { return d.ID == id })
	}
	again := func(h *History, i int) { h.Deliveries = append(h.Deliveries, h.Deliveries[i]) }
	swap := func(h *History, i, j int) { h.Deliveries[i], h.Deliveries[j] = h.Deliveries[j], h.Deliveries[i] }
	for _, c := range []struct {
		name  string
		rule  Rule
		plant func(h *History)
	}{
		{"published and never delivered", Lost, func(h *History) { drop(h, "a") }},
		{"a row is gone", Lost, func(h *History) { h.Rows = h.Rows[1:] }},
		{"the unanswered commit was one and is lost", Lost, func(h *History) { drop(h, "c") }},
		{"a row is still pending", Unfinished, func(h *History) { h.Rows[0].Status = "PENDING" }},
		{"a row was parked", Unfinished, func(h *History) { h.Rows[0].Status = "PARKED" }},
		{"rolled back and delivered", Invented, func(h *History) { h.Deliveries[0].ID = "gone" }},
		{"rolled back and stored", Invented, func(h *History) { h.Rows[0].ID = "gone" }},
		{"delivered, and nobody wrote it", Invented, func(h *History) { h.Deliveries[0].ID = "x" }},
		{"stored, and nobody wrote it", Invented, func(h *History) { h.Rows = append(h.Rows, Row{ID: "x"}) }},
		{"an unanswered commit was none and is delivered", Invented, func(h *History) { h.Rows = slices.Delete(h.Rows, 2, 3) }},
		{"a byte is another", Changed, func(h *History) { h.Deliveries[0].Digest = "#b" }},
		{"a key is another", Changed, func(h *History) { h.Deliveries[0].Key = "l" }},
		{"another destination got it", Changed, func(h *History) { h.Deliveries[0].Destination = "e" }},
		{"the second copy is another", Changed, func(h *History) { h.Deliveries[2].Digest = "#a" }},
		{"two rows changed places", Disorder, func(h *History) { swap(h, 0, 1) }},
		{"two rows of one transaction changed places", Disorder, func(h *History) { swap(h, 3, 5) }},
		{"an unanswered commit came before one that had ended", Disorder, func(h *History) { swap(h, 0, 4) }},
		{"a scheduled row overtook its elders", Disorder, func(h *History) { swap(h, 0, 7) }},
		{"twice without a doubt", Unexplained, func(h *History) { again(h, 0) }},
		{"three times with one doubt", Unexplained, func(h *History) { again(h, 1) }},
		{"published is not final", Illegal, func(h *History) { h.Changes[0].From, h.Changes[0].To = "PUBLISHED", "AMBIGUOUS" }},
		{"back to pending", Illegal, func(h *History) { h.Changes[0].From, h.Changes[0].To = "AMBIGUOUS", "PENDING" }},
		{"doubt without a record", Illegal, func(h *History) { h.Changes[1].Ambiguous = 0 }},
		{"a change without a version", Illegal, func(h *History) { h.Changes[0].VersionAfter = 0 }},
		{"in doubt, and nobody knows since when", Illegal, func(h *History) { h.Rows[1].Doubted = false }},
		{"in doubt, and held", Illegal, func(h *History) { h.Rows[1].Status = "HELD" }},
		{"published by a refusal", Illegal, func(h *History) { h.Rows[0].Outcome = "REJECTED" }},
		{"published without a moment", Illegal, func(h *History) { h.Rows[0].PublishedAt = false }},
		{"published without an attempt", Attempts, func(h *History) { h.Rows[0].Attempts = 0 }},
		{"more attempts than there are", Attempts, func(h *History) { h.Rows[0].Attempts = 7 }},
		{"one outcome charged twice", Attempts, func(h *History) { h.Changes[0].Attempts = 2 }},
		{"an attempt taken back", Attempts, func(h *History) { h.Changes[0].Attempts = -1 }},
		{"a stale holder wrote", Unfenced, func(h *History) { h.Changes[1].Holder = "r2" }},
		{"nobody held the lane", Unfenced, func(h *History) { h.Changes[1].Holder = "" }},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			h := wellDone()
			c.plant(h)
			found := Check(h)
			if !slices.ContainsFunc(found, func(v Violation) bool { return v.Rule == c.rule }) {
				t.Errorf("found %v, want one of %s", found, c.rule)
			}
		})
	}
}
