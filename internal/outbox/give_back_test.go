package outbox_test

import (
	"fmt"
	"testing"
	"time"
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
	var lanes []int32
	var epochs []int64
	for _, l := range b.takeAll(t, b.store, false) {
		lanes, epochs = append(lanes, l.Lane), append(epochs, l.Epoch)
	}
	if err := b.store.GiveBack(t.Context(), lanes, epochs); err != nil {
		t.Fatal(err)
	}
	var owned int
	if err := b.db.QueryRow(t.Context(), `select count(*) from messaging_outbox_lane where owner is not null`).Scan(&owned); err != nil || owned != 0 {
		t.Errorf("%d of %d lanes are still owned (%v)", owned, len(lanes), err)
	}
}
