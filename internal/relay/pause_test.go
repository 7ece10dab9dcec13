package relay_test

import (
	"testing"
	"time"
)

func TestAPausedDestinationWaits(t *testing.T) {
	t.Parallel()
	b := setup(t)
	exec := func(sql string) {
		t.Helper()
		if _, err := b.db.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	exec(`insert into messaging_control (scope, name, verb, owner, reason) values ('destination', 'orders', 'PAUSE', 'a', 'maintenance'), ('destination', 'orders', 'PAUSE', 'b', 'x')`)
	r, _ := b.start()
	wait(t, "the pause to be seen", func() bool { h := r.Health(); return len(h.Destinations) == 1 && h.Destinations[0].Paused })
	b.add(5, 0)
	exec(`delete from messaging_control where owner = 'a'`)
	never(t, time.Second, "a row was published while one pause stood", func() bool { return len(b.broker.all()) > 0 })
	exec(`update messaging_control set expires_at = now()`)
	b.until(map[string]int{"PUBLISHED": 5})
}
