package relay_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/backend-skeleton/relay/internal/relay"
	"github.com/backend-skeleton/relay/messaging"
)

// addTo inserts rows without key.
func (b *bundle) addTo(destination string, rows int) {
	b.t.Helper()
	if _, err := b.db.Exec(b.t.Context(), `select messaging_outbox_add($1, 'order.created', 'shop', '{}') from generate_series(1, $2)`, destination, rows); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bundle) number(sql string, args ...any) (n int) {
	b.t.Helper()
	if err := b.db.QueryRow(b.t.Context(), sql, args...).Scan(&n); err != nil {
		b.t.Fatal(err)
	}
	return n
}

// Two destinations of a broker never answer, and have more rows than it has places. The third one's rows all go out.
func TestMuteDestinationsDoNotStarveAThird(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.broker.muteTo = map[messaging.DestinationName]bool{"orders": true, "bills": true}
	b.config.Brokers = map[string]relay.Broker{"b": {Adapter: b.broker, InFlight: 40}}
	b.config.Breaker.Failures = 1000 // the places alone must do it
	b.config.Destinations[0].Attempts = 1000
	first := b.config.Destinations[0]
	first.Ordered = false
	b.config.Destinations = nil
	for _, name := range []messaging.DestinationName{"orders", "bills", "mails"} {
		d := first
		d.Name, d.Endpoint.Name = name, name
		b.config.Destinations = append(b.config.Destinations, d)
	}
	b.addTo("orders", 100)
	b.addTo("bills", 100)
	b.start()
	wait(t, "both to have rows in doubt", func() bool {
		return b.number(`select count(distinct destination) from messaging_outbox where status = 'AMBIGUOUS'`) == 2
	})
	b.addTo("mails", 50)
	wait(t, "the third one's rows", func() bool {
		return b.number(`select count(*) from messaging_outbox where destination = 'mails' and status = 'PUBLISHED'`) == 50
	})
}

// One broker is away for long. Nothing of its rows changes, nothing but probes is claimed for it, and the other broker's
// rows go out.
func TestABrokerThatIsAwayCostsTheOtherNothing(t *testing.T) {
	t.Parallel()
	b := setup(t)
	away := newFakeBroker()
	away.down = true
	b.config.Brokers["away"] = relay.Broker{Adapter: away}
	other := b.config.Destinations[0]
	other.Name, other.Broker = "bills", "away"
	b.config.Destinations = append(b.config.Destinations, other)
	b.addTo("bills", 200)
	var claimed atomic.Int64
	r, _ := b.start(func(c *relay.Config) {
		c.Hooks.Claimed = func(d messaging.DestinationName, rows int, _ time.Duration) {
			if d == "bills" {
				claimed.Add(int64(rows))
			}
		}
	})
	wait(t, "the breaker to open", func() bool {
		for _, d := range r.Health().Destinations {
			if d.Name == "bills" && !d.Ready {
				return true
			}
		}
		return false
	})
	before := claimed.Load()
	for range 5 {
		b.addTo("orders", 20)
		wait(t, "the other broker's rows", func() bool {
			return b.number(`select count(*) from messaging_outbox where destination = 'orders' and status <> 'PUBLISHED'`) == 0
		})
	}
	never(t, time.Second, "a row was claimed though no probe was answered", func() bool { return claimed.Load() > before })
	if n := b.number(`select count(*) from messaging_outbox where destination = 'bills' and status = 'PENDING' and attempts = 0`); n != 200 {
		t.Errorf("%d rows wait as they were, want 200", n)
	}
	away.set(func() { away.down = false })
	b.until(map[string]int{"PUBLISHED": 300})
	if n := b.number(`select max(attempts) from messaging_outbox`); n != 1 {
		t.Errorf("up to %d attempts, want 1", n)
	}
}
