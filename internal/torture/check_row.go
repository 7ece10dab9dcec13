package torture

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
	most := c.h.Attempts
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

// steps lists where a row may go from each state. Staying AMBIGUOUS or refused is a step too: another attempt.
var steps = map[string][]string{
	"PENDING":           {"HELD", "RETRYABLE_FAILURE", "AMBIGUOUS", "PUBLISHED", "PARKED"},
	"SCHEDULED":         {"PENDING", "PUBLISHED"},
	"HELD":              {"RETRYABLE_FAILURE", "AMBIGUOUS", "PUBLISHED", "PARKED"},
	"RETRYABLE_FAILURE": {"RETRYABLE_FAILURE", "AMBIGUOUS", "PUBLISHED", "PARKED"},
	"AMBIGUOUS":         {"AMBIGUOUS", "PUBLISHED", "PARKED"},
	"PARKED":            {"PUBLISHED"},
	"PUBLISHED":         {},
}

// change: every step is allowed, counts what it should, and was taken by the holder of the lane. Only a confirmation
// needs no lease: the broker has the message, whoever holds the lane.
func (c *checker) change(s *Change) {
	allowed := false
	for _, to := range steps[s.From] {
		allowed = allowed || to == s.To
	}
	if !allowed {
		c.report(Illegal, s.ID, "%s became %s", s.From, s.To)
	}
	if s.VersionAfter != s.VersionBefore+1 {
		c.report(Illegal, s.ID, "version %d became %d", s.VersionBefore, s.VersionAfter)
	}
	if s.Attempts < 0 || s.Attempts > 1 || s.Ambiguous < 0 || s.Ambiguous > 1 {
		c.report(Attempts, s.ID, "%s to %s added %d attempts and %d records of doubt", s.From, s.To, s.Attempts, s.Ambiguous)
	}
	if s.To == "AMBIGUOUS" && s.From != "AMBIGUOUS" && s.Ambiguous == 0 {
		c.report(Illegal, s.ID, "%s became AMBIGUOUS without a record of doubt", s.From)
	}
	if s.To != "PUBLISHED" && s.By != s.Holder {
		c.report(Unfenced, s.ID, "%s became %s by %q while %q held the lane", s.From, s.To, s.By, s.Holder)
	}
}
