package relay_test

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/backend-skeleton/relay/internal/relay"
	"github.com/backend-skeleton/relay/messaging"
)

func TestScheduledAndLateRows(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.start()
	tx, err := b.db.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(context.Background()) }()
	const insert = `select messaging_outbox_add('orders', 'order.created', 'shop', '{}', available_at => now() + $1::interval)`
	if _, err := tx.Exec(t.Context(), insert, "0"); err != nil {
		t.Fatal(err)
	}
	if _, err := b.db.Exec(t.Context(), insert, "500 milliseconds"); err != nil {
		t.Fatal(err)
	}
	b.add(1, 0)
	b.until(map[string]int{"PUBLISHED": 1, "SCHEDULED": 1})
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.until(map[string]int{"PUBLISHED": 3})
}

func TestLateCommitsAreCounted(t *testing.T) {
	t.Parallel()
	b := setup(t)
	var late atomic.Int64
	b.start(func(c *relay.Config) {
		c.Hooks.LateCommit = func(_ messaging.DestinationName, rows int) { late.Add(int64(rows)) }
	})
	tx, err := b.db.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(context.Background()) }()
	if _, err := tx.Exec(t.Context(), `select messaging_outbox_add('orders', 'order.created', 'shop', '{}', 'k0')`); err != nil {
		t.Fatal(err)
	}
	b.add(1, 1)
	b.until(map[string]int{"PUBLISHED": 1})
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.until(map[string]int{"PUBLISHED": 2})
	if n := late.Load(); n != 1 {
		t.Errorf("%d late commits counted, want 1", n)
	}
}
