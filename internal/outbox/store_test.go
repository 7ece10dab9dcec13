package outbox_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/backend-skeleton/relay/internal/dbtest"
	"github.com/backend-skeleton/relay/internal/outbox"
	"github.com/backend-skeleton/relay/messaging"
)

const destination = "orders"

type bundle struct {
	t     *testing.T
	db    *dbtest.DB
	store *outbox.Store
}

func setup(t *testing.T, ttl time.Duration) *bundle {
	t.Helper()
	db := dbtest.New(t)
	b := &bundle{t: t, db: db, store: outbox.New(db.As(t, dbtest.Worker), outbox.Config{Name: "a", LeaseTTL: ttl})}
	if err := b.store.Register(t.Context(), []string{destination}); err != nil {
		t.Fatal(err)
	}
	return b
}

func (b *bundle) another() *outbox.Store {
	return outbox.New(b.db.As(b.t, dbtest.Worker), outbox.Config{Name: "b", LeaseTTL: 10 * time.Second})
}

// add inserts one row and gives its id.
func (b *bundle) add(t *testing.T, key string) (id uuid.UUID) {
	t.Helper()
	err := b.db.QueryRow(t.Context(), `select messaging_outbox_add($1, 'order.created', 'shop', '{}', nullif($2, ''))`, destination, key).Scan(&id)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// takeAll leases every lane of the destination.
func (b *bundle) takeAll(t *testing.T, s *outbox.Store, rob bool) []outbox.Lease {
	t.Helper()
	rows, err := b.db.Query(t.Context(), `select lane from messaging_outbox_lane`)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	var lanes []int32
	for rows.Next() {
		var lane int32
		if err := rows.Scan(&lane); err != nil {
			t.Fatal(err)
		}
		lanes = append(lanes, lane)
	}
	var at time.Time
	if rob {
		at = time.Now()
	}
	leases, err := s.Take(t.Context(), lanes, len(lanes), at)
	if err != nil {
		t.Fatal(err)
	}
	return leases
}

func claims(leases []outbox.Lease) []outbox.LaneClaim {
	var cs []outbox.LaneClaim
	for _, l := range leases {
		cs = append(cs, outbox.LaneClaim{Step: step(l.Lane, l.Epoch), Limit: 100})
	}
	return cs
}

var lastStep atomic.Int64

// step is the next one of a lane.
func step(lane int32, epoch int64) outbox.Step {
	return outbox.Step{Lane: lane, Epoch: epoch, Number: outbox.TakenOver + lastStep.Add(1)}
}

func epochOf(leases []outbox.Lease, lane int32) int64 {
	for _, l := range leases {
		if l.Lane == lane {
			return l.Epoch
		}
	}
	return -1
}

func (b *bundle) claim(t *testing.T, s *outbox.Store, leases []outbox.Lease) []outbox.Row {
	t.Helper()
	rows, err := s.ClaimPending(t.Context(), destination, claims(leases), 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	return rows
}

func confirmed() messaging.PublishResult {
	return messaging.PublishResult{
		Completion: messaging.Confirmed, Routing: messaging.RoutingRouted, Position: &messaging.BrokerPosition{Broker: "k", Text: "kafka:t/0/1"},
		Evidence: messaging.Evidence{Transmission: messaging.Transmitted, BrokerAccepted: true, Level: messaging.LevelBrokerAck},
	}
}

func failed(c messaging.Completion, code string) messaging.PublishResult {
	return messaging.PublishResult{
		Completion: c, Routing: messaging.RoutingUnknown, Evidence: messaging.Evidence{Transmission: messaging.MayHaveBeenTransmitted},
		Failure: messaging.NewFailure(messaging.CategoryAmbiguous, code, "detail\x00with nul"),
	}
}

func outcome(r outbox.Row, epoch int64, st outbox.State, res messaging.PublishResult) outbox.Outcome {
	return outbox.Outcome{
		Lane: r.Lane, Epoch: epoch, ID: r.MessageID, Version: r.Version, FromIDs: r.Status != string(outbox.Pending),
		Status: st, Attempt: 1, Result: res,
	}
}

func (b *bundle) status(t *testing.T, id uuid.UUID) (status string, attempts, ambiguous int) {
	t.Helper()
	err := b.db.QueryRow(t.Context(), `select status::text, attempts, ambiguous_attempts from messaging_outbox where message_id = $1`, id).
		Scan(&status, &attempts, &ambiguous)
	if err != nil {
		t.Fatal(err)
	}
	return status, attempts, ambiguous
}
