package outbox_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/backend-skeleton/relay/internal/outbox"
	"github.com/backend-skeleton/relay/messaging"
)

// laneRow is what stands in the table about a lane, as one text.
func (b *bundle) laneRow(t *testing.T, lane int32) (text string) {
	t.Helper()
	err := b.db.QueryRow(t.Context(), `select to_jsonb(l) - 'lease_until' from messaging_outbox_lane l where lane = $1`, lane).Scan(&text)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// owned tells whether the lease still stands, by a renewal as the owner does it.
func (b *bundle) owned(t *testing.T, l outbox.Lease) bool {
	t.Helper()
	kept, err := b.store.Renew(t.Context(), []int32{l.Lane}, []int64{l.Epoch})
	if err != nil {
		t.Fatal(err)
	}
	return len(kept) == 1
}

// A step that its owner gave up is run after the next one of the same lease: it changes nothing, and the lease is not lost.
// On a lane that is lost it changes nothing either, and says so.
func TestALateStepOfTheSameLeaseChangesNothing(t *testing.T) {
	t.Parallel()
	type table struct {
		*bundle
		lease outbox.Lease
		due   uuid.UUID
	}
	claim := func(b table, s outbox.Step) outbox.LaneClaim { return outbox.LaneClaim{Step: s, Limit: 10} }
	for _, c := range []struct {
		name string
		run  func(ctx context.Context, b table, s outbox.Step) (unchanged []outbox.Unchanged, rows int, err error)
	}{
		{"claim", func(ctx context.Context, b table, s outbox.Step) ([]outbox.Unchanged, int, error) {
			rows, err := b.store.ClaimPending(ctx, destination, []outbox.LaneClaim{claim(b, s)}, 1<<20)
			return nil, len(rows), err
		}},
		{"claim of waiting rows", func(ctx context.Context, b table, s outbox.Step) ([]outbox.Unchanged, int, error) {
			rows, err := b.store.ClaimRuns(ctx, destination, []outbox.LaneClaim{claim(b, s)}, []outbox.Key{{Lane: s.Lane, Key: "k"}}, 1, true, 1<<20)
			return nil, len(rows), err
		}},
		{"claim of due rows", func(ctx context.Context, b table, s outbox.Step) ([]outbox.Unchanged, int, error) {
			rows, err := b.store.ClaimDeferred(ctx, destination, []outbox.LaneClaim{claim(b, s)}, false, nil, 1<<20)
			return nil, len(rows), err
		}},
		{"clean", func(ctx context.Context, b table, s outbox.Step) ([]outbox.Unchanged, int, error) {
			u, err := b.store.Clean(ctx, []outbox.Step{s})
			return u, 0, err
		}},
		{"give back", func(ctx context.Context, b table, s outbox.Step) ([]outbox.Unchanged, int, error) {
			u, err := b.store.GiveBack(ctx, []outbox.Step{s})
			return u, 0, err
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := table{bundle: setup(t, 10*time.Second)}
			b.due = b.add(t, "k")
			b.add(t, "k")
			if _, err := b.db.Exec(t.Context(), `update messaging_outbox set status = 'RETRYABLE_FAILURE', next_attempt_at = now() where message_id = $1`, b.due); err != nil {
				t.Fatal(err)
			}
			var lane int32
			if err := b.db.QueryRow(t.Context(), `select lane from messaging_outbox where message_id = $1`, b.due).Scan(&lane); err != nil {
				t.Fatal(err)
			}
			leases, err := b.store.Take(t.Context(), []int32{lane}, 1, time.Time{})
			if err != nil || len(leases) != 1 {
				t.Fatalf("took %d lanes, %v", len(leases), err)
			}
			b.lease = leases[0]
			late, next := step(lane, b.lease.Epoch), step(lane, b.lease.Epoch)
			run, err := b.store.ClaimRuns(t.Context(), destination, []outbox.LaneClaim{claim(b, next)}, []outbox.Key{{Lane: lane, Key: "k"}}, 1, true, 1<<20)
			if err != nil || len(run) != 1 {
				t.Fatalf("claimed %d rows, %v", len(run), err)
			}
			before := b.laneRow(t, lane)
			unchanged, rows, err := c.run(t.Context(), b, late)
			if err != nil || rows != 0 {
				t.Errorf("run late it gave %d rows, %v, want none", rows, err)
			}
			if after := b.laneRow(t, lane); after != before {
				t.Errorf("run late it changed the lane\nfrom %s\nto   %s", before, after)
			}
			if !b.owned(t, b.lease) {
				t.Error("the lease is lost")
			}
			if slices.ContainsFunc(unchanged, func(u outbox.Unchanged) bool { return u.Lost }) {
				t.Errorf("it says %+v, though the lease stands", unchanged)
			}
			if (c.name == "clean" || c.name == "give back") && len(unchanged) != 1 {
				t.Errorf("it says %+v, want the lane", unchanged)
			}
			// The same step, not late, on a lane that another relay has.
			if _, err := b.db.Exec(t.Context(), `update messaging_outbox_lane set owner = gen_random_uuid()`); err != nil {
				t.Fatal(err)
			}
			before = b.laneRow(t, lane)
			unchanged, rows, err = c.run(t.Context(), b, step(lane, b.lease.Epoch))
			if err != nil || rows != 0 || b.laneRow(t, lane) != before {
				t.Errorf("on another's lane it gave %d rows, %v, and changed %s to %s", rows, err, before, b.laneRow(t, lane))
			}
			if slices.ContainsFunc(unchanged, func(u outbox.Unchanged) bool { return !u.Lost }) || b.owned(t, b.lease) {
				t.Errorf("it says %+v of a lost lane", unchanged)
			}
		})
	}
}

// taken is a lane whose former owner left a window over a PENDING row and one that was claimed by its id.
func taken(t *testing.T, solo bool) (b *bundle, l outbox.Lease, pending, byID uuid.UUID) {
	t.Helper()
	b = setup(t, 10*time.Second)
	byID, pending = b.add(t, "k"), b.add(t, "k")
	if _, err := b.db.Exec(t.Context(), `update messaging_outbox set status = 'HELD' where message_id = $1`, byID); err != nil {
		t.Fatal(err)
	}
	_, err := b.db.Exec(t.Context(), `
	  update messaging_outbox_lane l set owner = gen_random_uuid(), window_lo = o.seq, window_hi = o.seq, window_ids = array[$1::uuid], solo = $3, window_no = 7
	    from messaging_outbox o where o.message_id = $2 and l.lane = o.lane`, byID, pending, solo)
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range b.takeAll(t, b.store, true) {
		if l.OpenWindow {
			return b, l, pending, byID
		}
	}
	t.Fatal("no lane with a window was taken")
	return nil, l, pending, byID
}

// The answer to a take-over was lost: done again it counts the crash once, marks nobody twice, and gives the same crashes.
func TestATakeOverDoneAgainCountsOneCrash(t *testing.T) {
	t.Parallel()
	b, l, pending, byID := taken(t, true)
	for i, want := range []int64{2, 0} {
		if rows, crashes, err := b.store.TakeOver(t.Context(), l, true, false, 3); err != nil || rows != want || crashes != 1 {
			t.Errorf("take-over %d: %d rows, %d crashes, %v, want %d rows and 1 crash", i+1, rows, crashes, err, want)
		}
	}
	for _, id := range []uuid.UUID{pending, byID} {
		if st, _, ambiguous := b.status(t, id); st != "AMBIGUOUS" || ambiguous != 1 {
			t.Errorf("row is %s with %d doubts, want AMBIGUOUS with 1", st, ambiguous)
		}
	}
}

// A take-over is run late, when its lane has rows on the wire again: they are not marked, and their window stays.
func TestALateTakeOverMarksNothing(t *testing.T) {
	t.Parallel()
	b, l, _, byID := taken(t, false)
	if _, _, err := b.store.TakeOver(t.Context(), l, true, false, 3); err != nil {
		t.Fatal(err)
	}
	run, err := b.store.ClaimRuns(t.Context(), destination, []outbox.LaneClaim{{Step: step(l.Lane, l.Epoch)}}, []outbox.Key{{Lane: l.Lane, Key: "k"}}, 1, true, 1<<20)
	if err != nil || len(run) != 1 || run[0].MessageID != byID {
		t.Fatalf("claimed %d rows, %v", len(run), err)
	}
	before := b.laneRow(t, l.Lane)
	rows, crashes, err := b.store.TakeOver(t.Context(), l, true, false, 3)
	if err != nil || rows != 0 || crashes != 1 || b.laneRow(t, l.Lane) != before {
		t.Errorf("run late: %d rows, %d crashes, %v; the lane was %s and is %s", rows, crashes, err, before, b.laneRow(t, l.Lane))
	}
	if _, _, ambiguous := b.status(t, byID); ambiguous != 1 {
		t.Errorf("%d doubts, want 1", ambiguous)
	}
	if _, err := b.db.Exec(t.Context(), `update messaging_outbox_lane set owner = gen_random_uuid()`); err != nil {
		t.Fatal(err)
	}
	if _, _, err := b.store.TakeOver(t.Context(), l, true, false, 3); !errors.Is(err, outbox.ErrLeaseLost) {
		t.Errorf("on another's lane: %v, want ErrLeaseLost", err)
	}
}

// Two runs of one step of a take-over at the same time: while the one marks, the other waits, and then has an old picture of
// the rows. Neither ends the take-over before every row of the window is marked.
func TestTwoTakeOversAtOnceLeaveNoRow(t *testing.T) {
	t.Parallel()
	b, l, _, _ := taken(t, false)
	if _, err := b.db.Exec(t.Context(), `
	  insert into messaging_outbox (destination, message_type, producer, payload, ordering_key)
	    select 'orders', 'order.created', 'shop', '{}', 'k' from generate_series(1, 2500)`); err != nil {
		t.Fatal(err)
	}
	if _, err := b.db.Exec(t.Context(), `update messaging_outbox_lane set window_hi = window_lo + 2500 where lane = $1`, l.Lane); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 3)
	for range cap(done) {
		go func() {
			_, crashes, err := b.store.TakeOver(t.Context(), l, true, false, 3)
			if err == nil && crashes != 1 {
				err = errors.New("the crash was not counted once")
			}
			done <- err
		}()
	}
	for range cap(done) {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	var left, twice int
	err := b.db.QueryRow(t.Context(), `select count(*) filter (where status <> 'AMBIGUOUS'), count(*) filter (where ambiguous_attempts > 1) from messaging_outbox`).Scan(&left, &twice)
	if err != nil || left != 0 || twice != 0 {
		t.Errorf("%d rows of the window were left and %d marked twice, %v", left, twice, err)
	}
}

// A record whose answer was lost is done again, the row is claimed again, and only then the first try is run: the row stays
// in the window that says it may be on the wire.
func TestALateRecordLeavesTheWindowOfTheNextTry(t *testing.T) {
	t.Parallel()
	b := setup(t, 10*time.Second)
	id := b.add(t, "")
	leases := b.takeAll(t, b.store, false)
	row := b.claim(t, b.store, leases)[0]
	epoch := epochOf(leases, row.Lane)
	refuse := func(r outbox.Row, byID bool) outbox.Outcome {
		o := outcome(r, epoch, outbox.RetryableFailure, failed(messaging.Rejected, messaging.CodeNacked))
		o.FromIDs = byID
		return o
	}
	record := func(o outbox.Outcome, want int) {
		t.Helper()
		if missed, err := b.store.Record(t.Context(), []outbox.Outcome{o}); err != nil || len(missed) != want {
			t.Fatalf("missed %d, %v, want %d", len(missed), err, want)
		}
	}
	window := func() (ids []uuid.UUID) {
		t.Helper()
		if err := b.db.QueryRow(t.Context(), `select coalesce(window_ids, '{}') from messaging_outbox_lane where lane = $1`, row.Lane).Scan(&ids); err != nil {
			t.Fatal(err)
		}
		return ids
	}
	again := func() outbox.Row {
		t.Helper()
		rows, err := b.store.ClaimDeferred(t.Context(), destination, []outbox.LaneClaim{{Step: step(row.Lane, epoch), Limit: 1}}, true, nil, 1<<20)
		if err != nil || len(rows) != 1 || !slices.Contains(window(), id) {
			t.Fatalf("claimed %d rows, %v", len(rows), err)
		}
		return rows[0]
	}
	record(refuse(row, false), 0)
	first := refuse(again(), true)
	record(first, 0)
	if slices.Contains(window(), id) {
		t.Fatal("a recorded row stays in the window")
	}
	again()
	record(first, 1) // the try without an answer
	if !slices.Contains(window(), id) {
		t.Error("a late record took a row on the wire out of the window")
	}
}
