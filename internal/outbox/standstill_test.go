package outbox

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/backend-skeleton/relay/internal/brokertest"
	"github.com/backend-skeleton/relay/internal/dbtest"
)

// TestAProcessThatStandsStillKeepsNoLocks: it was stopped between two statements of the transaction that records
// outcomes, and its session lives on. Others get its lanes.
func TestAProcessThatStandsStillKeepsNoLocks(t *testing.T) {
	t.Parallel()
	db := dbtest.New(t)
	stopped := New(db.As(t, dbtest.Worker), Config{LeaseTTL: time.Second})
	if err := stopped.Register(t.Context(), []string{"orders"}); err != nil {
		t.Fatal(err)
	}
	var lane int32
	if err := db.QueryRow(t.Context(), `select min(lane) from messaging_outbox_lane`).Scan(&lane); err != nil {
		t.Fatal(err)
	}
	if leases, err := stopped.Take(t.Context(), []int32{lane}, 1, time.Time{}); err != nil || len(leases) != 1 {
		t.Fatalf("took %d lanes, %v", len(leases), err)
	}
	tx, err := db.BeginTx(t.Context(), pgx.TxOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(t.Context()) }()
	for _, sql := range []string{settings, `select lane from messaging_outbox_lane where owner is not null for key share`} {
		if _, err := tx.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	other := New(db.As(t, dbtest.Worker), Config{LeaseTTL: time.Second})
	brokertest.Eventually(t, 20*time.Second, "the lane of a relay that stands still inside a transaction to be taken", func() bool {
		leases, err := other.Take(t.Context(), []int32{lane}, 1, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		return len(leases) == 1
	})
}
