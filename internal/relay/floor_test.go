package relay

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/backend-skeleton/relay/internal/brokertest"
	"github.com/backend-skeleton/relay/internal/dbtest"
	"github.com/backend-skeleton/relay/internal/outbox"
)

// renewals are what the owner of a lane learns with them, on a real server.
type renewals struct {
	t     *testing.T
	db    *dbtest.DB
	store *outbox.Store
	lease outbox.Lease
	steps int64
}

const insertOrder = `insert into messaging_outbox (destination, message_type, producer, payload, ordering_key) values ('orders', 'order.created', 'shop', '{}', 'k') returning seq`

func newRenewals(t *testing.T) *renewals {
	t.Helper()
	r := &renewals{t: t, db: dbtest.New(t)}
	r.store = outbox.New(r.db.Pool, outbox.Config{LeaseTTL: time.Hour})
	if err := r.store.Register(t.Context(), []string{"orders"}); err != nil {
		t.Fatal(err)
	}
	var lane int32
	if err := r.db.QueryRow(t.Context(), `select messaging_outbox_lane_of('orders', 'k')`).Scan(&lane); err != nil {
		t.Fatal(err)
	}
	leases, err := r.store.Take(t.Context(), []int32{lane}, 1, time.Time{})
	if err != nil || len(leases) != 1 {
		t.Fatalf("took %d lanes, %v", len(leases), err)
	}
	r.lease, r.steps = leases[0], outbox.TakenOver
	return r
}

func (r *renewals) add() (seq int64) {
	r.t.Helper()
	if err := r.db.QueryRow(r.t.Context(), insertOrder).Scan(&seq); err != nil {
		r.t.Fatal(err)
	}
	return seq
}

func (r *renewals) renew() outbox.Renewed {
	r.t.Helper()
	kept, err := r.store.Renew(r.t.Context(), []int32{r.lease.Lane}, []int64{r.lease.Epoch})
	if err != nil || len(kept) != 1 {
		r.t.Fatalf("renewed %d lanes, %v", len(kept), err)
	}
	return kept[0]
}

// untilProven renews until the writers of other tests have ended too: ids are those of the whole server.
func (r *renewals) untilProven(f *floor, now time.Time) {
	r.t.Helper()
	brokertest.Eventually(r.t, 30*time.Second, "the writers of that time to have ended", func() bool {
		f.renewed(f.read.Load(), r.renew(), now)
		return f.proven > 0
	})
}

// claim reads the lane as its pump would, with the rows in hand left alone.
func (r *renewals) claim(f *floor, inHand ...int64) []outbox.Row {
	r.t.Helper()
	r.steps++
	c := outbox.LaneClaim{
		Step: outbox.Step{Lane: r.lease.Lane, Epoch: r.lease.Epoch, Number: r.steps}, Limit: 10, Cursor: f.read.Load(),
		InOrder: true, Floor: f.at, InHand: inHand,
	}
	rows, err := r.store.ClaimPending(r.t.Context(), "orders", []outbox.LaneClaim{c}, 1<<20)
	if err != nil {
		r.t.Fatal(err)
	}
	f.looked(c.Floor, rows, time.Now(), 0)
	return rows
}

// A row that an old transaction holds back is found behind the cursor when it is committed, however late. The floor rises
// only after that.
func TestTheFloorWaitsForEveryWriterOfItsTime(t *testing.T) {
	t.Parallel()
	r := newRenewals(t)
	old, err := r.db.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = old.Rollback(context.Background()) }()
	var late int64
	if err := old.QueryRow(t.Context(), insertOrder).Scan(&late); err != nil {
		t.Fatal(err)
	}
	second := r.add()
	f := &floor{}
	if rows := r.claim(f); len(rows) != 1 || rows[0].Seq != second {
		t.Fatalf("claimed %d rows", len(rows))
	}
	now := time.Now()
	for range 5 { // minutes pass
		f.renewed(f.read.Load(), r.renew(), now)
		now = now.Add(2 * longWriter)
	}
	if rows := r.claim(f, second); len(rows) != 0 || f.at != 0 {
		t.Fatalf("claimed %d rows, the floor is %d while a writer of that time is at work", len(rows), f.at)
	}
	if err := old.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if rows := r.claim(f, second); len(rows) != 1 || rows[0].Seq != late {
		t.Fatalf("claimed %d rows, want the late one", len(rows))
	}
	r.untilProven(f, now)
	if rows := r.claim(f, second, late); len(rows) != 0 || f.at != second {
		t.Errorf("claimed %d rows, the floor is %d, want %d", len(rows), f.at, second)
	}
}

// Transactions that begin later, and those that only read, do not hold the floor; a moment does.
func TestTheFloorRisesUnderAnOldReader(t *testing.T) {
	t.Parallel()
	r := newRenewals(t)
	reader, err := r.db.BeginTx(t.Context(), pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = reader.Rollback(context.Background()) }()
	var n int
	if err := reader.QueryRow(t.Context(), `select count(*) from messaging_outbox`).Scan(&n); err != nil {
		t.Fatal(err)
	}
	seq := r.add()
	f := &floor{}
	r.claim(f)
	now := time.Now()
	f.renewed(f.read.Load(), r.renew(), now)
	writer, err := r.db.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = writer.Rollback(context.Background()) }()
	if _, err := writer.Exec(t.Context(), insertOrder); err != nil {
		t.Fatal(err)
	}
	f.renewed(f.read.Load(), r.renew(), now.Add(longWriter-time.Millisecond))
	if f.proven != 0 {
		t.Fatal("proven before its time")
	}
	r.untilProven(f, now.Add(longWriter))
	if r.claim(f, seq); f.at != seq {
		t.Errorf("the floor is %d, want %d", f.at, seq)
	}
}

// Where each look would cost seconds, the lane does not stand still for it: it is done a part of the time, and never proves
// anything between.
func TestADearLookIsDoneAPartOfTheTime(t *testing.T) {
	t.Parallel()
	f, now := &floor{}, time.Now()
	for low := range int64(3) { // the low mark of a while ago is 1
		f.from(1+low, now)
		now = now.Add(longWriter)
	}
	f.looked(f.from(9, now), nil, now, dearLook-1)
	if got := f.from(9, now); got != 0 {
		t.Errorf("a cheap look begins at %d, want the floor", got)
	}
	f.looked(0, nil, now, time.Second)
	f.proven = 9
	between := f.from(9, now.Add(lookFactor*time.Second-1))
	if between == 0 {
		t.Error("a dear look is done again at once")
	}
	if f.looked(between, nil, now, time.Millisecond); f.at != 0 || f.cost != time.Second {
		t.Error("a look that did not begin at the floor raised it")
	}
	if got := f.from(9, now.Add(lookFactor*time.Second)); got != 0 {
		t.Errorf("after its time the look begins at %d, want the floor", got)
	}
	if f.looked(0, nil, now, time.Second); f.at != 9 {
		t.Errorf("the floor is %d, want 9", f.at)
	}
}
