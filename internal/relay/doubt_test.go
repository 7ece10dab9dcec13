package relay_test

import (
	"testing"
)

func TestALateConfirmationEndsTheDoubt(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.broker.mute = true
	b.add(6, 2)
	b.start()
	b.until(map[string]int{"AMBIGUOUS": 2, "HELD": 4})
	b.broker.set(func() {
		b.broker.mute = false
		for _, answer := range b.broker.muted {
			answer()
		}
	})
	b.until(map[string]int{"PUBLISHED": 6})
	if got := len(b.broker.all()); got != 6 {
		t.Errorf("%d messages stored, want 6: a row was sent again while its answer was open", got)
	}
}
