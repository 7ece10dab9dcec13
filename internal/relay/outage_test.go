package relay_test

import (
	"testing"

	"github.com/backend-skeleton/relay/messaging"
)

func TestB11_ABrokerThatIsDownBurnsNoAttempts(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.broker.down = true
	ids := b.add(100, 5)
	r, _ := b.start()
	wait(t, "the breaker to open", func() bool {
		h := r.Health()
		return len(h.Destinations) == 1 && !h.Destinations[0].Ready && h.Destinations[0].Reason == messaging.CodeBrokerUnreachable
	})
	if got := b.counts(); got["PENDING"] != 100 {
		t.Errorf("rows are %v, want 100 PENDING", got)
	}
	b.broker.set(func() { b.broker.down = false })
	b.until(map[string]int{"PUBLISHED": 100})
	b.inOrder(ids)
	var attempts int
	if err := b.db.QueryRow(t.Context(), `select max(attempts) from messaging_outbox`).Scan(&attempts); err != nil || attempts != 1 {
		t.Errorf("up to %d attempts, %v, want 1", attempts, err)
	}
}
