package inbox_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/backend-skeleton/relay/internal/dbtest"
	"github.com/backend-skeleton/relay/internal/inbox"
	"github.com/backend-skeleton/relay/messaging"
)

func reserve(t *testing.T, db *dbtest.DB, r inbox.Reservation) inbox.Verdict {
	t.Helper()
	tx, err := db.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(context.Background())
	v, err := inbox.Pgx(tx).Reserve(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	return v
}

func reservation(c messaging.ConsumerName, retention time.Duration) inbox.Reservation {
	return inbox.Reservation{Consumer: c, ID: messaging.NewMessageID(), Type: "order.created", Hash: messaging.HashPayload(nil), Retention: retention}
}

func TestPruneRemovesWhatHasExpired(t *testing.T) {
	t.Parallel()
	dbtest.Majors(t, func(t *testing.T, major int) {
		db := dbtest.New(t, dbtest.Major(major))
		kept := reservation("billing", time.Hour)
		reserve(t, db, kept)
		for range 25 {
			reserve(t, db, reservation("billing", -time.Second))
			reserve(t, db, reservation("mail", -time.Second))
		}
		if _, err := inbox.Prune(t.Context(), db, -1); err == nil {
			t.Error("a negative batch was accepted")
		}
		// Several processes share the work.
		var mu sync.Mutex
		var removed int64
		var processes sync.WaitGroup
		for range 3 {
			processes.Go(func() {
				n, err := inbox.Prune(t.Context(), db, 7)
				if err != nil {
					t.Error(err)
				}
				mu.Lock()
				defer mu.Unlock()
				removed += n
			})
		}
		processes.Wait()
		n, err := inbox.Prune(t.Context(), db, 0) // rows that another process held were skipped
		if removed += n; err != nil || removed != 50 {
			t.Errorf("removed %d, %v; want 50", removed, err)
		}
		if v := reserve(t, db, kept); v != inbox.Duplicate {
			t.Errorf("the row that has not expired: %v", v)
		}
	})
}

func TestStats(t *testing.T) {
	t.Parallel()
	db := dbtest.New(t)
	if stats, err := inbox.Stats(t.Context(), db); err != nil || len(stats) != 0 {
		t.Errorf("empty inbox: %v, %v", stats, err)
	}
	before := time.Now().Add(-time.Minute)
	reserve(t, db, reservation("mail", time.Hour))
	reserve(t, db, reservation("billing", time.Hour))
	reserve(t, db, reservation("billing", -time.Second))
	stats, err := inbox.Stats(t.Context(), db)
	if err != nil || len(stats) != 2 {
		t.Fatalf("%v, %v", stats, err)
	}
	b, m := stats[0], stats[1]
	if b.Consumer != "billing" || b.Messages != 2 || b.Expired != 1 || !b.Oldest.After(before) || b.Newest.Before(b.Oldest) {
		t.Errorf("billing: %+v", b)
	}
	if m.Consumer != "mail" || m.Messages != 1 || m.Expired != 0 || !m.Oldest.Equal(m.Newest) {
		t.Errorf("mail: %+v", m)
	}
}

func TestVerdictsOfAReservation(t *testing.T) {
	t.Parallel()
	db := dbtest.New(t)
	r := reservation("billing", time.Hour)
	if v := reserve(t, db, r); v != inbox.Reserved {
		t.Errorf("first: %v", v)
	}
	other := r
	other.Hash = messaging.HashPayload([]byte("b"))
	if v := reserve(t, db, other); v != inbox.Mismatch {
		t.Errorf("another payload: %v", v)
	}
	other.Consumer = "mail"
	if v := reserve(t, db, other); v != inbox.Reserved {
		t.Errorf("another consumer: %v", v)
	}
	if v := reserve(t, db, r); v != inbox.Duplicate {
		t.Errorf("again: %v", v)
	}
}
