package torture

import "slices"

// row: what the table says of it at the end goes together.
func (c *checker) row(r *Row) {
	if (r.Ambiguous > 0) != r.Doubted {
		c.report(Illegal, r.ID, "%d records of doubt, first_ambiguous_at set: %v", r.Ambiguous, r.Doubted)
	}
	if r.Status == "PUBLISHED" && (!r.PublishedAt || r.Outcome != "CONFIRMED") {
		c.report(Illegal, r.ID, "PUBLISHED with the outcome %q", r.Outcome)
	}
	if r.Ambiguous > 0 && r.Status != "AMBIGUOUS" && r.Status != "PUBLISHED" && r.Status != "PARKED" {
		c.report(Illegal, r.ID, "%s, though it was in doubt", r.Status)
	}
	most := c.h.Attempts[r.Destination]
	if r.Status == "PUBLISHED" {
		most++ // a confirmation that came after the row was parked is one more
		if r.Attempts < 1 {
			c.report(Attempts, r.ID, "PUBLISHED after %d attempts", r.Attempts)
		}
	}
	if r.Attempts < 0 || r.Attempts > most || r.CrashAttempts < 0 || r.CrashAttempts > most || r.Ambiguous < 0 {
		c.report(Attempts, r.ID, "%d attempts, %d crashes, %d records of doubt", r.Attempts, r.CrashAttempts, r.Ambiguous)
	}
}

// steps lists where a relay may take a row from each state. Staying AMBIGUOUS or refused is a step too: another attempt.
var steps = map[string][]string{
	"PENDING":           {"HELD", "RETRYABLE_FAILURE", "AMBIGUOUS", "PUBLISHED", "PARKED"},
	"SCHEDULED":         {"PENDING"},
	"HELD":              {"RETRYABLE_FAILURE", "AMBIGUOUS", "PUBLISHED", "PARKED"},
	"RETRYABLE_FAILURE": {"RETRYABLE_FAILURE", "AMBIGUOUS", "PUBLISHED", "PARKED"},
	"AMBIGUOUS":         {"AMBIGUOUS", "PUBLISHED", "PARKED"},
	"PARKED":            {"PUBLISHED"},
	"PUBLISHED":         {},
}

// operated lists where an operator may take it. To retry leaves the state as it is.
var operated = map[string][]string{
	"PENDING": {"PARKED"}, "SCHEDULED": {"PARKED"}, "HELD": {"PARKED"},
	"RETRYABLE_FAILURE": {"RETRYABLE_FAILURE", "PARKED"}, "AMBIGUOUS": {"AMBIGUOUS", "PARKED"},
	"PARKED": {"PARKED", "RETRYABLE_FAILURE", "AMBIGUOUS"},
}

// relayLost is what a take-over says of a row that its former owner may have published.
const relayLost = "RELAY_LOST"

// change: every step is allowed, counts what it should, and was taken by the holder of the lane. Only a confirmation
// needs no lease: the broker has the message, whoever holds the lane.
func (c *checker) change(s *Change) {
	if s.To == "AMBIGUOUS" && s.From != "AMBIGUOUS" && s.From != "PARKED" && s.Ambiguous == 0 {
		c.report(Illegal, s.ID, "%s became AMBIGUOUS without a record of doubt", s.From)
	}
	if s.Ambiguous < 0 || s.Ambiguous > 1 || s.Attempts > 1 || s.Crashes > 1 {
		c.report(Attempts, s.ID, "%s to %s added %d attempts, %d crashes and %d records of doubt", s.From, s.To, s.Attempts, s.Crashes, s.Ambiguous)
	}
	if s.By == Operator {
		c.operation(s)
		return
	}
	if !slices.Contains(steps[s.From], s.To) {
		c.report(Illegal, s.ID, "%s became %s", s.From, s.To)
	}
	if s.VersionAfter != s.VersionBefore+1 {
		c.report(Illegal, s.ID, "version %d became %d", s.VersionBefore, s.VersionAfter)
	}
	lost := s.Code == relayLost && s.To != "PUBLISHED"
	switch {
	case s.Attempts < 0 || s.Crashes < 0:
		c.report(Attempts, s.ID, "%s to %s took %d attempts and %d crashes back", s.From, s.To, -s.Attempts, -s.Crashes)
	case lost && (s.Attempts != 0 || s.Ambiguous != 1):
		c.report(Attempts, s.ID, "lost with its relay: %d attempts and %d records of doubt", s.Attempts, s.Ambiguous)
	case !lost && s.Crashes != 0:
		c.report(Attempts, s.ID, "a crash was counted where none was: %s to %s", s.From, s.To)
	case (s.To == "PUBLISHED" || s.To == "RETRYABLE_FAILURE") && s.Attempts != 1, (s.To == "HELD" || s.To == "PENDING") && s.Attempts != 0:
		c.report(Attempts, s.ID, "%s to %s added %d attempts", s.From, s.To, s.Attempts)
	}
	if s.To != "PUBLISHED" && s.By != s.Holder {
		c.report(Unfenced, s.ID, "%s became %s by %q while %q held the lane", s.From, s.To, s.By, s.Holder)
	}
}

// operation: an operator parks, redrives with fresh attempts, or changes nothing but when a row is due.
func (c *checker) operation(s *Change) {
	if !slices.Contains(operated[s.From], s.To) {
		c.report(Illegal, s.ID, "%s became %s by an operator", s.From, s.To)
	}
	redriven := s.From == "PARKED" && s.To != "PARKED"
	if !redriven && (s.Attempts != 0 || s.Crashes != 0) {
		c.report(Attempts, s.ID, "an operator's %s to %s added %d attempts and %d crashes", s.From, s.To, s.Attempts, s.Crashes)
	}
	if s.Ambiguous != 0 && s.To != "PARKED" {
		c.report(Illegal, s.ID, "an operator's %s to %s is a record of doubt", s.From, s.To)
	}
	if raised := s.VersionAfter - s.VersionBefore; raised != 1 && (raised != 0 || s.From != s.To) {
		c.report(Illegal, s.ID, "version %d became %d by an operator", s.VersionBefore, s.VersionAfter)
	}
}

// crashes: what is blamed for a crash was alone in the hands of its relay, so a take-over blames one row at most.
func (c *checker) crashes() {
	blamed := map[string]string{}
	for i := range c.h.Changes {
		s := &c.h.Changes[i]
		if s.Crashes <= 0 {
			continue
		}
		if other := blamed[s.Transaction]; other != "" && other != s.ID {
			c.report(Attempts, s.ID, "blamed for the same crash as message %s", other)
		}
		blamed[s.Transaction] = s.ID
	}
}
