package relay_test

import (
	"fmt"
	"testing"
)

func TestRowsArePublishedOnceAndInOrder(t *testing.T) {
	t.Parallel()
	for _, prefix := range []bool{false, true} {
		for _, keys := range []int{0, 1, 7} {
			t.Run(fmt.Sprintf("prefix=%t keys=%d", prefix, keys), func(t *testing.T) {
				t.Parallel()
				b := setup(t)
				b.broker.prefix = prefix
				ids := b.add(300, keys)
				b.start()
				b.until(map[string]int{"PUBLISHED": 300})
				if got := len(b.broker.all()); got != 300 {
					t.Errorf("%d messages stored, want 300", got)
				}
				b.inOrder(ids)
			})
		}
	}
}

func TestB01_SeveralRelaysPublishEachRowOnce(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.broker.prefix = true
	ids := b.add(1000, 50)
	for range 4 {
		b.start()
	}
	b.until(map[string]int{"PUBLISHED": 1000})
	if got := len(b.broker.all()); got != 1000 {
		t.Errorf("%d messages stored, want 1000", got)
	}
	b.inOrder(ids)
	var attempts int
	if err := b.db.QueryRow(t.Context(), `select max(attempts) from messaging_outbox`).Scan(&attempts); err != nil || attempts != 1 {
		t.Errorf("up to %d attempts, %v, want 1", attempts, err)
	}
}
