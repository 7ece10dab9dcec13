package relay_test

import (
	"context"
	"testing"
	"time"

	"github.com/backend-skeleton/relay/internal/outbox"
	"github.com/backend-skeleton/relay/internal/relay"
	"github.com/backend-skeleton/relay/messaging"
)

// TestNothingOvertakesARowWithoutAnswer: the head of a key is refused late, while a row behind it is still without
// answer. What waits behind that row must not go out with the head.
func TestNothingOvertakesARowWithoutAnswer(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.broker.prefix, b.broker.mute = true, true
	b.broker.answer = func(_ string, _ messaging.MessageID, try int) (messaging.PublishResult, bool) {
		return confirmed(), try > 1 // nothing of the first call is stored
	}
	b.config.Destinations[0].Attempts = 20
	ids := b.add(2, 1)
	b.start()
	b.until(map[string]int{"AMBIGUOUS": 2})
	ids = append(ids, b.add(1, 1)...)
	b.until(map[string]int{"AMBIGUOUS": 2, "HELD": 1})
	nack := rejected(messaging.CategoryTransientInfrastructure, messaging.CodeNacked, messaging.Transmitted)
	b.broker.set(func() {
		b.broker.mute = false
		b.broker.late[0](nack)
	})
	b.until(map[string]int{"AMBIGUOUS": 1, "HELD": 1, "PUBLISHED": 1})
	b.broker.set(func() { b.broker.late[1](nack) })
	b.until(map[string]int{"PUBLISHED": 3})
	b.inOrder(ids)
}

// TestARowBeforeAParkedOneGoesOut: of one call's rows of a key the first is not sent because the broker is away, the
// second is refused for ever. The first is the head and goes out when the broker is back.
func TestARowBeforeAParkedOneGoesOut(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.broker.prefix, b.broker.down = true, true
	b.config.Destinations[0].MaxBytes = 10
	for _, payload := range []string{"{}", `"more than ten bytes"`, "{}"} {
		if _, err := b.db.Exec(t.Context(), `select messaging_outbox_add('orders', 'order.created', 'shop', $1, 'k')`, payload); err != nil {
			t.Fatal(err)
		}
	}
	b.start()
	wait(t, "the second row to be parked", func() bool { return b.counts()["PARKED"] == 1 })
	b.broker.set(func() { b.broker.down = false })
	b.until(map[string]int{"HELD": 1, "PARKED": 1, "PUBLISHED": 1})
}

// TestALateRowBeforeAParkedOneGoesOut: it became visible after the row that was parked, and stands before it.
func TestALateRowBeforeAParkedOneGoesOut(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.config.Destinations[0].MaxBytes = 10
	b.start()
	tx, err := b.db.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(context.Background()) }()
	if _, err := tx.Exec(t.Context(), `select messaging_outbox_add('orders', 'order.created', 'shop', '{}', 'k')`); err != nil {
		t.Fatal(err)
	}
	for _, payload := range []string{`"more than ten bytes"`, "{}"} {
		if _, err := b.db.Exec(t.Context(), `select messaging_outbox_add('orders', 'order.created', 'shop', $1, 'k')`, payload); err != nil {
			t.Fatal(err)
		}
	}
	b.until(map[string]int{"HELD": 1, "PARKED": 1})
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.until(map[string]int{"HELD": 1, "PARKED": 1, "PUBLISHED": 1})
}

// TestASuspectedRowOfAPausedDestinationStopsNobody: it cannot go out alone, and the other destinations do not wait for it.
func TestASuspectedRowOfAPausedDestinationStopsNobody(t *testing.T) {
	t.Parallel()
	b := setup(t)
	other := b.config.Destinations[0]
	other.Name = "bills"
	b.config.Destinations = append(b.config.Destinations, other)
	b.add(1, 0)
	for _, sql := range []string{
		`select messaging_outbox_register('{orders,bills}')`,
		`update messaging_outbox_lane set crashes = 9 where destination = 'orders'`,
		`insert into messaging_control (scope, name, verb, owner) values ('destination', 'orders', 'PAUSE', 'a')`,
	} {
		if _, err := b.db.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	r, _ := b.start()
	wait(t, "the suspect lane to be owned", func() bool { return r.Owned("orders") > 0 })
	for range 3 {
		if _, err := b.db.Exec(t.Context(), `select messaging_outbox_add('bills', 'order.created', 'shop', '{}')`); err != nil {
			t.Fatal(err)
		}
	}
	b.until(map[string]int{"PENDING": 1, "PUBLISHED": 3})
	if _, err := b.db.Exec(t.Context(), `delete from messaging_control`); err != nil {
		t.Fatal(err)
	}
	b.until(map[string]int{"PUBLISHED": 4})
}

// TestALaneTakenWithoutAnAnswerIsServed: the lease was committed, the answer lost. Nobody else can have the lane while
// the lease lasts, and this relay must not believe that somebody has it.
func TestALaneTakenWithoutAnAnswerIsServed(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.add(5, 0)
	var store *outbox.Store
	b.start(func(c *relay.Config) {
		store = c.Store
		if err := store.Register(t.Context(), []string{"orders"}); err != nil {
			t.Fatal(err)
		}
		work, err := store.FindWork(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, w := range work {
			if _, err := store.Take(t.Context(), []int32{w.Lane}, 1, time.Time{}); err != nil {
				t.Fatal(err)
			}
		}
	})
	b.until(map[string]int{"PUBLISHED": 5})
}

// TestASuspectedRowWaitsForNoOtherRow: the breaker is half open, and the row that could close it was parked. What is
// left are rows that may go out only where nothing speaks against the destination.
func TestASuspectedRowWaitsForNoOtherRow(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.config.Breaker.Failures = 1
	b.broker.answer = func(key string, _ messaging.MessageID, _ int) (messaging.PublishResult, bool) {
		if key == "bad" {
			return rejected(messaging.CategoryTransientInfrastructure, messaging.CodeNacked, messaging.Transmitted), false
		}
		return confirmed(), true
	}
	for _, sql := range []string{
		`select messaging_outbox_register('{orders}')`,
		`update messaging_outbox_lane set crashes = 9`,
		`select messaging_outbox_add('orders', 'order.created', 'shop', '{}', 'bad')`,
	} {
		if _, err := b.db.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	b.start()
	b.until(map[string]int{"PARKED": 1})
	if _, err := b.db.Exec(t.Context(), `
	  select messaging_outbox_add('orders', 'order.created', 'shop', '{}', k) from (select 'k' || i as k from generate_series(1, 100) i) s
	   where messaging_outbox_lane_of('orders', k) <> messaging_outbox_lane_of('orders', 'bad') limit 1`); err != nil {
		t.Fatal(err)
	}
	b.until(map[string]int{"PARKED": 1, "PUBLISHED": 1})
}

// TestARelayThatCannotReachItsBrokerLeavesTheLanesToOthers: its way to the broker is cut, another's is not.
func TestARelayThatCannotReachItsBrokerLeavesTheLanesToOthers(t *testing.T) {
	t.Parallel()
	b := setup(t)
	cut := newFakeBroker()
	cut.down = true
	b.add(50, 50)
	r, _ := b.start(func(c *relay.Config) { c.Brokers = map[string]relay.Broker{"b": {Adapter: cut}} })
	wait(t, "the lanes to be owned", func() bool { return r.Owned("orders") > 0 })
	b.start()
	b.until(map[string]int{"PUBLISHED": 50})
	if n := len(cut.all()); n != 0 {
		t.Errorf("%d rows went the way that is cut", n)
	}
}
