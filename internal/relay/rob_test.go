package relay

import (
	"context"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/backend-skeleton/relay/internal/brokertest"
	"github.com/backend-skeleton/relay/internal/dbtest"
	"github.com/backend-skeleton/relay/internal/outbox"
)

func TestALeapOfTheDatabasesClock(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	last := reading{clock: at, from: 10 * time.Second, to: 11 * time.Second}
	for name, c := range map[string]struct {
		next reading
		want bool
	}{
		"as time goes":          {reading{at.Add(time.Minute), 70 * time.Second, 71 * time.Second}, false},
		"within the statements": {reading{at.Add(62 * time.Second), 70 * time.Second, 71 * time.Second}, false},
		"a slow statement":      {reading{at.Add(80 * time.Second), 70 * time.Second, 100 * time.Second}, false},
		"ten minutes on":        {reading{at.Add(11 * time.Minute), 70 * time.Second, 71 * time.Second}, true},
		"ten minutes back":      {reading{at.Add(-9 * time.Minute), 70 * time.Second, 71 * time.Second}, true},
		"a little more":         {reading{at.Add(64 * time.Second), 70 * time.Second, 71 * time.Second}, true},
	} {
		if got := last.leapt(c.next, 2*time.Second); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

// An expired lane is taken on the word of a server that is known, and after the length of a lease on that of another one.
func TestAnotherServerIsNoWitness(t *testing.T) {
	t.Parallel()
	db := dbtest.New(t)
	r, err := New(Config{Store: outbox.New(db.As(t, dbtest.Worker), outbox.Config{LeaseTTL: time.Second}), Lease: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	s := &scout{r: r}
	expired := []outbox.Work{{Lane: 1, Owner: uuid.New(), Expired: true, Now: time.Now()}}
	may := func(work []outbox.Work) bool {
		t.Helper()
		at, err := s.mayRob(context.Background(), work)
		if err != nil {
			t.Fatal(err)
		}
		return !at.IsZero()
	}
	if r.server, _, err = r.c.Store.ServerStarted(t.Context()); err != nil {
		t.Fatal(err)
	}
	if !may(expired) {
		t.Error("a lane that expired is left to its owner")
	}
	r.server = r.server.Add(-time.Hour) // the one of before
	if may(expired) {
		t.Error("a lane is taken on the word of another server")
	}
	begin := time.Now()
	brokertest.Eventually(t, 20*time.Second, "the lane to be taken in the end", func() bool { return may(expired) })
	if waited := time.Since(begin); waited < 500*time.Millisecond {
		t.Errorf("waited for %v, want about a lease", waited)
	}
}
