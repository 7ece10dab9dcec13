package relay_test

import (
	"testing"
	"time"

	"github.com/backend-skeleton/relay/messaging"
)

// A destination without right is blocked: its rows wait as they were, or are parked once they have waited for as long as
// the file allows.
func TestRowsOfABlockedDestination(t *testing.T) {
	t.Parallel()
	for name, limit := range map[string]time.Duration{"wait for ever": 0, "are parked": time.Second} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.config.Destinations[0].BlockedFor = limit
			b.broker.answer = func(string, messaging.MessageID, int) (messaging.PublishResult, bool) {
				return rejected(messaging.CategoryAuthorization, messaging.CodeNotAuthorized, messaging.Transmitted), false
			}
			b.add(20, 3)
			r, _ := b.start()
			wait(t, "the breaker to open", func() bool {
				h := r.Health()
				return len(h.Destinations) == 1 && h.Destinations[0].Reason == messaging.CodeNotAuthorized
			})
			if limit == 0 {
				never(t, 2*time.Second, "a row was parked", func() bool { return b.counts()["PARKED"] > 0 })
				return
			}
			if got := b.counts()["PARKED"]; got != 0 {
				t.Errorf("%d rows were parked at once", got)
			}
			b.until(map[string]int{"PARKED": 20})
			var attempts, others int
			err := b.db.QueryRow(t.Context(), `select max(attempts), count(*) filter (where last_failure_code <> 'NOT_AUTHORIZED') from messaging_outbox`).Scan(&attempts, &others)
			if err != nil || attempts != 0 || others != 0 {
				t.Errorf("up to %d attempts and %d rows with another code, %v, want 0", attempts, others, err)
			}
		})
	}
}
