package relay_test

import (
	"testing"
	"time"

	"github.com/backend-skeleton/relay/internal/dbtest"
	"github.com/backend-skeleton/relay/internal/outbox"
	"github.com/backend-skeleton/relay/messaging"
)

func TestARelayThatDiedIsTakenOver(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ids := b.add(20, 4)
	dead := outbox.New(b.db.As(t, dbtest.Worker), outbox.Config{LeaseTTL: 100 * time.Millisecond})
	if err := dead.Register(t.Context(), []string{"orders"}); err != nil {
		t.Fatal(err)
	}
	work, err := dead.FindWork(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var lanes []int32
	for _, w := range work {
		lanes = append(lanes, w.Lane)
	}
	leases, err := dead.Take(t.Context(), lanes, len(lanes), time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	var claims []outbox.LaneClaim
	for _, l := range leases {
		claims = append(claims, outbox.LaneClaim{Step: outbox.Step{Lane: l.Lane, Epoch: l.Epoch, Number: outbox.TakenOver + 1}, Limit: 3})
	}
	claimed, err := dead.ClaimPending(t.Context(), "orders", claims, 1<<20)
	if err != nil || len(claimed) == 0 {
		t.Fatalf("claimed %d, %v", len(claimed), err)
	}
	b.start()
	b.until(map[string]int{"PUBLISHED": 20})
	b.inOrder(ids)
	var lost int
	if err := b.db.QueryRow(t.Context(), `select count(*) from messaging_outbox where ambiguous_attempts = 1`).Scan(&lost); err != nil || lost != len(claimed) {
		t.Errorf("%d rows were in doubt, %v, want %d", lost, err, len(claimed))
	}
}

func TestLanesThatCrashedGoSoloUntilTheyAreTrusted(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.broker.delay = 5 * time.Millisecond
	ids := b.add(60, 8)
	store := outbox.New(b.db.As(t, dbtest.Worker), outbox.Config{})
	if err := store.Register(t.Context(), []string{"orders"}); err != nil {
		t.Fatal(err)
	}
	if _, err := b.db.Exec(t.Context(), `update messaging_outbox_lane set crashes = 9`); err != nil {
		t.Fatal(err)
	}
	b.start()
	b.until(map[string]int{"PUBLISHED": 60})
	b.inOrder(ids)
	var lanes, crashes, windows int
	err := b.db.QueryRow(t.Context(), `select (select count(distinct lane) from messaging_outbox), sum(crashes), count(*) filter (where solo)
	  from messaging_outbox_lane l where exists (select from messaging_outbox o where o.lane = l.lane)`).Scan(&lanes, &crashes, &windows)
	if err != nil || crashes != 0 || windows != 0 {
		t.Errorf("%d crashes and %d solo windows are left, %v, want none", crashes, windows, err)
	}
	b.broker.set(func() {
		solo := 0
		for _, n := range b.broker.sizes {
			if n == 1 {
				solo++
			}
		}
		if solo < lanes {
			t.Errorf("%d calls of one row, want at least one for each of %d lanes", solo, lanes)
		}
	})
}

func TestARowThatKillsItsRelayIsParkedAlone(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.config.Destinations[0].Ordered = false
	ids := b.add(1, 0)
	if _, err := b.db.Exec(t.Context(), `select messaging_outbox_register('{orders}')`); err != nil {
		t.Fatal(err)
	}
	for i := range 3 { // a relay leases it alone and dies, three times
		dead := outbox.New(b.db.As(t, dbtest.Worker), outbox.Config{LeaseTTL: time.Millisecond})
		var lane int32
		if err := b.db.QueryRow(t.Context(), `select lane from messaging_outbox where message_id = $1`, ids[0]).Scan(&lane); err != nil {
			t.Fatal(err)
		}
		leases, err := dead.Take(t.Context(), []int32{lane}, 1, time.Now().Add(time.Minute))
		if err != nil || len(leases) != 1 {
			t.Fatalf("took %d lanes, %v", len(leases), err)
		}
		l := leases[0]
		if l.OpenWindow {
			if _, _, err := dead.TakeOver(t.Context(), l, false, false, 3); err != nil {
				t.Fatal(err)
			}
		}
		claim := []outbox.LaneClaim{{Step: outbox.Step{Lane: lane, Epoch: l.Epoch, Number: outbox.TakenOver + 1}, Limit: 1, Solo: true}}
		rows, err := dead.ClaimPending(t.Context(), "orders", claim, 1<<20)
		if i > 0 {
			claim[0].Number++
			rows, err = dead.ClaimDeferred(t.Context(), "orders", claim, false, nil, 1<<20)
		}
		if err != nil || len(rows) != 1 {
			t.Fatalf("death %d: claimed %d rows, %v", i+1, len(rows), err)
		}
	}
	b.start()
	b.until(map[string]int{"PARKED": 1})
	var code string
	var crashes, attempts int
	err := b.db.QueryRow(t.Context(), `select last_failure_code, crash_attempts, attempts from messaging_outbox`).Scan(&code, &crashes, &attempts)
	if err != nil || code != messaging.CodeRelayLost || crashes != 3 || attempts != 0 {
		t.Errorf("parked as %s after %d crashes and %d attempts, %v, want RELAY_LOST after 3 and 0", code, crashes, attempts, err)
	}
	if n := len(b.broker.all()); n != 0 {
		t.Errorf("it was published %d times", n)
	}
}
