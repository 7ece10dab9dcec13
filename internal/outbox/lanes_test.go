package outbox_test

import (
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/backend-skeleton/relay/internal/dbtest"
	"github.com/backend-skeleton/relay/internal/outbox"
)

func TestFindWork(t *testing.T) {
	t.Parallel()
	b := setup(t, 10*time.Second)
	if work, err := b.store.FindWork(t.Context()); err != nil || len(work) != 0 {
		t.Fatalf("work in an empty table: %v %v", work, err)
	}
	b.add(t, "k")
	if _, err := b.db.Exec(t.Context(), `select messaging_outbox_add('nobody', 'order.created', 'shop', '{}')`); err != nil {
		t.Fatal(err)
	}
	work, err := b.store.FindWork(t.Context())
	if err != nil || len(work) != 2 {
		t.Fatalf("work: %+v %v", work, err)
	}
	var unknown []int32
	for _, w := range work {
		if !w.Pending || w.Owner != uuid.Nil || w.Expired {
			t.Errorf("work: %+v", w)
		}
		if w.Destination == "" {
			unknown = append(unknown, w.Lane)
		}
	}
	if n, err := b.store.ParkUnknown(t.Context(), unknown, time.Hour); err != nil || n != 0 {
		t.Errorf("parked %d rows within the grace time, %v", n, err)
	}
	if n, err := b.store.ParkUnknown(t.Context(), unknown, 0); err != nil || n != 1 {
		t.Errorf("parked %d rows, %v, want 1", n, err)
	}
}

func TestRenewAndGiveBack(t *testing.T) {
	t.Parallel()
	b := setup(t, 10*time.Second)
	leases := b.takeAll(t, b.store, false)
	var lanes []int32
	var epochs []int64
	for _, l := range leases {
		lanes, epochs = append(lanes, l.Lane), append(epochs, l.Epoch)
	}
	epochs[0]-- // a lease of another epoch is not this one
	kept, err := b.store.Renew(t.Context(), lanes, epochs)
	if err != nil || len(kept) != 15 {
		t.Fatalf("renewed %d lanes, %v, want 15", len(kept), err)
	}
	steps := make([]outbox.Step, len(lanes))
	for i := range lanes {
		steps[i] = step(lanes[i], epochs[i])
	}
	if unchanged, err := b.store.GiveBack(t.Context(), steps); err != nil || len(unchanged) != 1 || !unchanged[0].Lost || unchanged[0].Lane != lanes[0] {
		t.Fatalf("not given back: %+v, %v, want the first", unchanged, err)
	}
	again := b.takeAll(t, b.another(), false)
	if len(again) != 15 {
		t.Fatalf("took %d free lanes, want 15", len(again))
	}
	for _, l := range again {
		if l.Epoch <= epochOf(leases, l.Lane) {
			t.Errorf("an epoch was used twice")
		}
	}
}

// A statement that takes expired lanes and stood still with the server takes none: their owners could not renew meanwhile.
func TestALateTakeRobsNobody(t *testing.T) {
	t.Parallel()
	b := setup(t, 9*time.Second)
	leases := b.takeAll(t, b.store, false)
	lane := []int32{leases[0].Lane}
	if _, err := b.db.Exec(t.Context(), `update messaging_outbox_lane set lease_until = clock_timestamp() - interval '1 second'`); err != nil {
		t.Fatal(err)
	}
	other := outbox.New(b.db.As(t, dbtest.Worker), outbox.Config{Name: "b", LeaseTTL: 9 * time.Second})
	for _, c := range []struct {
		name string
		at   time.Time
		want int
	}{
		{"never", time.Time{}, 0}, {"a third of a lease ago and more", time.Now().Add(-4 * time.Second), 0}, {"now", time.Now(), 1},
	} {
		got, err := other.Take(t.Context(), lane, 1, c.at)
		if err != nil || len(got) != c.want {
			t.Errorf("%s: took %d lanes, %v, want %d", c.name, len(got), err, c.want)
		}
	}
}

// A lane whose lease never became known is taken again, once: the same statement, run late, leaves the new lease alone.
func TestALateTakeLeavesTheOwnLeaseAlone(t *testing.T) {
	t.Parallel()
	b := setup(t, 10*time.Second)
	lost := b.takeAll(t, b.store, false)[0] // the answer did not come
	lane, own := []int32{lost.Lane}, outbox.Own{Lane: lost.Lane, Epoch: lost.Epoch}
	if got, err := b.store.Take(t.Context(), lane, 1, time.Time{}); err != nil || len(got) != 0 {
		t.Errorf("took %d lanes that are known here, %v", len(got), err)
	}
	again, err := b.store.Take(t.Context(), lane, 1, time.Time{}, own)
	if err != nil || len(again) != 1 || again[0].Epoch <= lost.Epoch {
		t.Fatalf("took %+v, %v", again, err)
	}
	if got, err := b.store.Take(t.Context(), lane, 1, time.Time{}, own); err != nil || len(got) != 0 {
		t.Errorf("run late it took %d lanes, %v", len(got), err)
	}
	if !b.owned(t, again[0]) {
		t.Error("the lease is lost")
	}
}
