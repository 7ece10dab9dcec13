package relay_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/uuid"
)

// TestWritersThatTakeTurnsAreInOrder: rows of one key are committed one after the other, under the key's lock, while
// the lane moves on with rows of another key.
func TestWritersThatTakeTurnsAreInOrder(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.broker.delay = 20 * time.Millisecond
	var busy string
	if err := b.db.QueryRow(t.Context(), `select k from (select 'k' || i as k from generate_series(1, 200) i) s
	   where messaging_outbox_lane_of('orders', k) = messaging_outbox_lane_of('orders', 'turn') limit 1`).Scan(&busy); err != nil {
		t.Fatal(err)
	}
	const add = `select messaging_outbox_lock_key('orders', $1), messaging_outbox_add('orders', 'order.created', 'shop', '{}', $1)`
	b.start()
	var ids []uuid.UUID
	for range 40 {
		tx, err := b.db.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var first, second, other uuid.UUID
		var void any
		if err := tx.QueryRow(t.Context(), add, "turn").Scan(&void, &first); err != nil {
			t.Fatal(err)
		}
		before := len(b.broker.all())
		for range 3 {
			if err := b.db.QueryRow(t.Context(), add, busy).Scan(&void, &other); err != nil {
				t.Fatal(err)
			}
		}
		wait(t, "the lane to move on", func() bool { return len(b.broker.all()) > before })
		if err := tx.Commit(context.Background()); err != nil {
			t.Fatal(err)
		}
		if err := b.db.QueryRow(t.Context(), add, "turn").Scan(&void, &second); err != nil {
			t.Fatal(err)
		}
		ids = append(ids, first, second)
	}
	b.until(map[string]int{"PUBLISHED": 40 * 5})
	at := map[uuid.UUID]int{}
	for i, id := range ids {
		at[id] = i
	}
	last, wrong := -1, 0
	for _, s := range b.broker.all() {
		if s.key != "turn" {
			continue
		}
		i := at[uuid.MustParse(s.id.String())]
		if i < last {
			wrong++
		}
		last = max(last, i)
	}
	if wrong > 0 {
		t.Errorf("%d of %d rows of a key went out behind a row that was committed after them", wrong, len(ids))
	}
}
