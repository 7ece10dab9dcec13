package outbox_test

import (
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/backend-skeleton/relay/internal/outbox"
	"github.com/backend-skeleton/relay/messaging"
)

func TestKeysBehindAHead(t *testing.T) {
	t.Parallel()
	b := setup(t, 10*time.Second)
	head, follower := b.add(t, "k"), b.add(t, "k")
	leases := b.takeAll(t, b.store, false)
	rows := b.claim(t, b.store, leases)
	slices.SortFunc(rows, func(a, c outbox.Row) int { return int(a.Seq - c.Seq) })
	lane, epoch := rows[0].Lane, epochOf(leases, rows[0].Lane)
	o := outcome(rows[0], epoch, outbox.Ambiguous, failed(messaging.Ambiguous, messaging.CodeConfirmTimeout))
	o.Ambiguous, o.Delay = 1, time.Hour
	if missed, err := b.store.Record(t.Context(), []outbox.Outcome{o}); err != nil || len(missed) != 0 {
		t.Fatalf("record: %v %v", missed, err)
	}
	if held, err := b.store.Hold(t.Context(), []int32{lane}, []int64{epoch}, []uuid.UUID{follower}); err != nil || len(held) != 1 {
		t.Fatalf("hold: %v %v", held, err)
	}
	key := outbox.Key{Lane: lane, Key: "k"}
	keys, err := b.store.BlockedKeys(t.Context(), []int32{lane}, true)
	if err != nil || len(keys) != 1 || keys[0] != key {
		t.Fatalf("blocked keys: %v %v", keys, err)
	}
	looks, err := b.store.LookAtKeys(t.Context(), []outbox.Key{key}, true)
	if err != nil || len(looks) != 1 || looks[0].Head != head || looks[0].Due < 50*time.Minute || looks[0].Parked {
		t.Fatalf("look: %+v %v", looks, err)
	}
	if due, err := b.store.DueKeys(t.Context(), []int32{lane}); err != nil || len(due) != 0 {
		t.Fatalf("due keys: %v %v", due, err)
	}
	if _, err := b.db.Exec(t.Context(), `update messaging_outbox set next_attempt_at = now() where message_id = $1`, head); err != nil {
		t.Fatal(err)
	}
	if due, err := b.store.DueKeys(t.Context(), []int32{lane}); err != nil || len(due) != 1 {
		t.Fatalf("due keys: %v %v", due, err)
	}
	run, err := b.store.ClaimRuns(t.Context(), destination, []outbox.LaneClaim{{Step: step(lane, epoch)}}, []outbox.Key{key}, 10, true, 1<<20)
	if err != nil || len(run) != 2 || run[0].MessageID != head || run[1].MessageID != follower {
		t.Fatalf("run: %d rows, %v", len(run), err)
	}
	var ids []uuid.UUID
	if err := b.db.QueryRow(t.Context(), `select window_ids from messaging_outbox_lane where lane = $1`, lane).Scan(&ids); err != nil || len(ids) != 2 {
		t.Fatalf("window ids: %v %v", ids, err)
	}
	// A relay that dies here leaves both in doubt, the follower waiting behind the head.
	if _, err := b.db.Exec(t.Context(), `update messaging_outbox_lane set lease_until = '-infinity'`); err != nil {
		t.Fatal(err)
	}
	other := b.another()
	for _, l := range b.takeAll(t, other, true) {
		if l.OpenWindow {
			if n, _, err := other.TakeOver(t.Context(), l, true, false, 3); err != nil || n != 2 {
				t.Fatalf("take-over marked %d rows, %v, want 2", n, err)
			}
		}
	}
	var due, waiting int
	err = b.db.QueryRow(t.Context(), `select count(*) filter (where next_attempt_at is not null), count(*) filter (where next_attempt_at is null)
	  from messaging_outbox where status = 'AMBIGUOUS' and last_failure_code = 'RELAY_LOST'`).Scan(&due, &waiting)
	if err != nil || due != 1 || waiting != 1 {
		t.Errorf("after the take-over %d due and %d waiting, %v, want 1 and 1", due, waiting, err)
	}
}

func TestParkedHeadBlocksItsKey(t *testing.T) {
	t.Parallel()
	b := setup(t, 10*time.Second)
	b.add(t, "k")
	leases := b.takeAll(t, b.store, false)
	row := b.claim(t, b.store, leases)[0]
	epoch := epochOf(leases, row.Lane)
	o := outcome(row, epoch, outbox.Parked, failed(messaging.Rejected, messaging.CodeTooLarge))
	o.Delay = -1
	if missed, err := b.store.Record(t.Context(), []outbox.Outcome{o}); err != nil || len(missed) != 0 {
		t.Fatalf("record: %v %v", missed, err)
	}
	follower := b.add(t, "k")
	if _, err := b.store.Hold(t.Context(), []int32{row.Lane}, []int64{epoch}, []uuid.UUID{follower}); err != nil {
		t.Fatal(err)
	}
	key := outbox.Key{Lane: row.Lane, Key: "k"}
	for _, block := range []bool{true, false} {
		looks, err := b.store.LookAtKeys(t.Context(), []outbox.Key{key}, block)
		if err != nil || looks[0].Parked != block || looks[0].Head != follower {
			t.Errorf("block %t: look %+v, %v", block, looks, err)
		}
		run, err := b.store.ClaimRuns(t.Context(), destination, []outbox.LaneClaim{{Step: step(row.Lane, epoch)}}, []outbox.Key{key}, 10, block, 1<<20)
		if err != nil || (len(run) == 0) != block {
			t.Errorf("block %t: claimed %d rows, %v", block, len(run), err)
		}
	}
}

// A row of the window that stands behind a waiting one of its key is in doubt and waits: it is not due beside its head.
func TestATakeOverMakesOnlyHeadsDue(t *testing.T) {
	t.Parallel()
	b, l, pending, byID := taken(t, false)
	if _, err := b.db.Exec(t.Context(), `update messaging_outbox_lane set window_ids = null where lane = $1`, l.Lane); err != nil {
		t.Fatal(err)
	}
	if _, err := b.db.Exec(t.Context(), `update messaging_outbox set status = 'RETRYABLE_FAILURE', next_attempt_at = now() + interval '1 hour' where message_id = $1`, byID); err != nil {
		t.Fatal(err)
	}
	if rows, _, err := b.store.TakeOver(t.Context(), l, true, false, 3); err != nil || rows != 1 {
		t.Fatalf("take-over marked %d rows, %v, want 1", rows, err)
	}
	if st, _, _ := b.status(t, pending); st != "AMBIGUOUS" {
		t.Errorf("the row is %s", st)
	}
	if due, err := b.store.DueKeys(t.Context(), []int32{l.Lane}); err != nil || len(due) != 0 {
		t.Errorf("due keys: %v, %v, want none while the head waits", due, err)
	}
}

// A row that was lost alone too often is parked; where the policy says so it does not hold its key.
func TestARowParkedByATakeOverFollowsThePolicy(t *testing.T) {
	t.Parallel()
	for _, skip := range []bool{true, false} {
		b, l, pending, byID := taken(t, true)
		if rows, _, err := b.store.TakeOver(t.Context(), l, true, skip, 1); err != nil || rows != 2 {
			t.Fatalf("take-over marked %d rows, %v, want 2", rows, err)
		}
		var parked, skipped int
		if err := b.db.QueryRow(t.Context(), `select count(*), count(skipped_at) from messaging_outbox where status = 'PARKED' and message_id = any($1)`,
			[]uuid.UUID{pending, byID}).Scan(&parked, &skipped); err != nil || parked != 2 || (skipped == 2) != skip {
			t.Errorf("skip %t: %d parked, %d skipped, %v", skip, parked, skipped, err)
		}
		if keys, err := b.store.BlockedKeys(t.Context(), []int32{l.Lane}, true); err != nil || (len(keys) == 0) != skip {
			t.Errorf("skip %t: blocked keys %v, %v", skip, keys, err)
		}
	}
}

func TestDeferredRowsWithoutKey(t *testing.T) {
	t.Parallel()
	b := setup(t, 10*time.Second)
	id := b.add(t, "")
	leases := b.takeAll(t, b.store, false)
	row := b.claim(t, b.store, leases)[0]
	epoch := epochOf(leases, row.Lane)
	o := outcome(row, epoch, outbox.RetryableFailure, failed(messaging.Rejected, messaging.CodeNacked))
	if missed, err := b.store.Record(t.Context(), []outbox.Outcome{o}); err != nil || len(missed) != 0 {
		t.Fatalf("record: %v %v", missed, err)
	}
	claim := func() []outbox.LaneClaim { return []outbox.LaneClaim{{Step: step(row.Lane, epoch), Limit: 10}} }
	if rows, err := b.store.ClaimDeferred(t.Context(), destination, claim(), true, []uuid.UUID{id}, 1<<20); err != nil || len(rows) != 0 {
		t.Errorf("claimed %d unresolved rows, %v", len(rows), err)
	}
	rows, err := b.store.ClaimDeferred(t.Context(), destination, claim(), true, nil, 1<<20)
	if err != nil || len(rows) != 1 || rows[0].Status != "RETRYABLE_FAILURE" || rows[0].Attempts != 1 {
		t.Fatalf("deferred: %+v %v", rows, err)
	}
	// The same outcome again, as after a lost answer to COMMIT: the version has moved on, nobody is charged twice.
	if missed, err := b.store.Record(t.Context(), []outbox.Outcome{o}); err != nil || len(missed) != 1 {
		t.Errorf("a repeated statement charged again: missed %d, %v", len(missed), err)
	}
	if _, attempts, _ := b.status(t, id); attempts != 1 {
		t.Errorf("%d attempts, want 1", attempts)
	}
}

// A solo window names one row, also where rows of both kinds could go: a due one, and one that another order held back.
func TestASoloWindowNamesOneRow(t *testing.T) {
	t.Parallel()
	b := setup(t, 10*time.Second)
	b.add(t, "k")
	b.add(t, "k")
	if _, err := b.db.Exec(t.Context(), `update messaging_outbox set status = case when seq % 2 = 0 then 'HELD' else 'RETRYABLE_FAILURE' end::messaging_outbox_state,
	  next_attempt_at = case when seq % 2 = 1 then now() end`); err != nil {
		t.Fatal(err)
	}
	for _, l := range b.takeAll(t, b.store, false) {
		for _, solo := range []bool{true, false} {
			rows, err := b.store.ClaimDeferred(t.Context(), destination, []outbox.LaneClaim{{Step: step(l.Lane, l.Epoch), Limit: 1, Solo: solo}}, false, nil, 1<<20)
			if err != nil || len(rows) > 0 && (len(rows) == 1) != solo {
				t.Errorf("solo %t: %d rows, %v", solo, len(rows), err)
			}
		}
	}
}

func TestScheduledRowsTakeTheirPlace(t *testing.T) {
	t.Parallel()
	b := setup(t, 10*time.Second)
	_, err := b.db.Exec(t.Context(), `select messaging_outbox_add($1, 'order.created', 'shop', '{}', 'k', available_at => now() + interval '1 hour')`, destination)
	if err != nil {
		t.Fatal(err)
	}
	leases := b.takeAll(t, b.store, false)
	if rows := b.claim(t, b.store, leases); len(rows) != 0 {
		t.Fatalf("claimed %d rows that are not due", len(rows))
	}
	if _, err := b.db.Exec(t.Context(), `update messaging_outbox set next_attempt_at = now()`); err != nil {
		t.Fatal(err)
	}
	var lanes []int32
	var epochs []int64
	for _, l := range leases {
		lanes, epochs = append(lanes, l.Lane), append(epochs, l.Epoch)
	}
	lowest, err := b.store.ReleaseScheduled(t.Context(), lanes, epochs, 100)
	if err != nil || len(lowest) != 1 {
		t.Fatalf("released %v, %v", lowest, err)
	}
	if rows := b.claim(t, b.store, leases); len(rows) != 1 {
		t.Errorf("claimed %d rows, want 1", len(rows))
	}
}
