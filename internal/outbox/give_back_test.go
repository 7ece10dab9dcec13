package outbox_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/backend-skeleton/relay/internal/outbox"
)

func TestManyLanesAreGivenBackInSteps(t *testing.T) {
	t.Parallel()
	b := setup(t, 10*time.Second)
	var names []string
	for i := range 20 {
		names = append(names, fmt.Sprintf("many.%d", i))
	}
	if err := b.store.Register(t.Context(), names); err != nil {
		t.Fatal(err)
	}
	var steps []outbox.Step
	for _, l := range b.takeAll(t, b.store, false) {
		steps = append(steps, step(l.Lane, l.Epoch))
	}
	if unchanged, err := b.store.GiveBack(t.Context(), steps); err != nil || len(unchanged) > 0 {
		t.Fatal(unchanged, err)
	}
	var owned int
	if err := b.db.QueryRow(t.Context(), `select count(*) from messaging_outbox_lane where owner is not null`).Scan(&owned); err != nil || owned != 0 {
		t.Errorf("%d of %d lanes are still owned (%v)", owned, len(steps), err)
	}
}
