package relay_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/backend-skeleton/relay/internal/relay"
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

// Nothing is to be sent, and the broker goes away: readiness learns of it, and that it is back, and no row is burnt.
func TestAnIdleRelayKnowsThatItsBrokerIsAway(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.config.IdleProbe = 50 * time.Millisecond
	r, _ := b.start()
	ready := func(want bool, reason string) func() bool {
		return func() bool {
			h := r.Health()
			return len(h.Destinations) == 1 && h.Destinations[0].Ready == want && h.Destinations[0].Reason == reason
		}
	}
	wait(t, "the relay to be ready", ready(true, ""))
	b.broker.set(func() { b.broker.down = true })
	wait(t, "readiness to name the broker", ready(false, messaging.CodeBrokerUnreachable))
	if s := r.Health().Destinations[0].State; s != relay.BreakerClosed {
		t.Errorf("the breaker is %v, though no row found anything out", s)
	}
	b.broker.set(func() { b.broker.down = false })
	wait(t, "the relay to be ready again", ready(true, ""))
}

// Payload bytes are counted from the hand-over until the adapter is done with them.
func TestBufferedBytesAreTrue(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.broker.mute = true
	b.add(3, 0)
	var bytes atomic.Int64
	b.start(func(c *relay.Config) {
		c.Hooks.Buffered = func(_ string, n int64) { bytes.Store(n) }
	})
	wait(t, "the bytes to be counted", func() bool { return bytes.Load() == 6 })
	b.broker.set(func() {
		b.broker.mute = false
		for _, answer := range b.broker.muted {
			answer()
		}
	})
	b.until(map[string]int{"PUBLISHED": 3})
	wait(t, "the bytes to be gone", func() bool { return bytes.Load() == 0 })
}
