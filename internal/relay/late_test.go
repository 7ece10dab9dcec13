package relay_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/uuid"
)

// Two writers of a key take turns: the second begins when the first has committed. Between the first one's insert and
// its commit, rows of another key in the same lane go out, and one of them is still on its way when the second writer
// commits. However far the relay has read the lane by then, the key's rows go out in the order of its writers.
func TestAWriterThatTookItsTimeIsNotOvertaken(t *testing.T) {
	t.Parallel()
	for name, busy := range map[string]time.Duration{
		"the lane is read on while a row is on its way": 0,
		"the lane is read again once that row is done":  300 * time.Millisecond, // it is let run dry by then
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.config.Poll = 5 * time.Second
			b.broker.mute = true
			tx, err := b.db.Begin(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = tx.Rollback(context.Background()) }()
			const add = `select messaging_outbox_add('orders', 'order.created', 'shop', '{}', 'k')`
			ids := make([]uuid.UUID, 2)
			if err := tx.QueryRow(t.Context(), add).Scan(&ids[0]); err != nil {
				t.Fatal(err)
			}
			if _, err := b.db.Exec(t.Context(), `
			  select messaging_outbox_add('orders', 'order.created', 'shop', '{}', k) from (select 'k' || i as k from generate_series(1, 1000) i) s
			   where messaging_outbox_lane_of('orders', k) = messaging_outbox_lane_of('orders', 'k') limit 1`); err != nil {
				t.Fatal(err)
			}
			b.start()
			wait(t, "the other key's row to be on its way", func() bool {
				b.broker.mu.Lock()
				defer b.broker.mu.Unlock()
				return len(b.broker.muted) == 1
			})
			b.broker.set(func() { b.broker.mute = false })
			<-time.After(busy)
			if err := tx.Commit(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := b.db.QueryRow(t.Context(), add).Scan(&ids[1]); err != nil {
				t.Fatal(err)
			}
			if busy == 0 {
				wait(t, "the key's rows to go out", func() bool { return b.counts()["PUBLISHED"] == 2 })
			}
			b.broker.set(func() { b.broker.muted[0]() })
			b.until(map[string]int{"PUBLISHED": 3})
			var sent []string
			for _, s := range b.broker.all() {
				if s.key == "k" {
					sent = append(sent, s.id.String())
				}
			}
			if len(sent) != 2 || sent[0] != ids[0].String() {
				t.Errorf("the key's rows went out as %v, want %v", sent, ids)
			}
		})
	}
}
