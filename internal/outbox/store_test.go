package outbox_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/backend-skeleton/relay/internal/dbtest"
	"github.com/backend-skeleton/relay/internal/outbox"
	"github.com/backend-skeleton/relay/messaging"
)

const destination = "orders"

type bundle struct {
	db    *dbtest.DB
	store *outbox.Store
}

func setup(t *testing.T, ttl time.Duration) *bundle {
	t.Helper()
	db := dbtest.New(t)
	b := &bundle{db: db, store: outbox.New(db.Pool, outbox.Config{Name: "a", LeaseTTL: ttl})}
	if err := b.store.Register(t.Context(), []string{destination}); err != nil {
		t.Fatal(err)
	}
	return b
}

func (b *bundle) another() *outbox.Store {
	return outbox.New(b.db.Pool, outbox.Config{Name: "b", LeaseTTL: 10 * time.Second})
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
	leases, err := s.Take(t.Context(), lanes, len(lanes), rob)
	if err != nil {
		t.Fatal(err)
	}
	return leases
}

func claims(leases []outbox.Lease) []outbox.LaneClaim {
	var cs []outbox.LaneClaim
	for _, l := range leases {
		cs = append(cs, outbox.LaneClaim{Lane: l.Lane, Epoch: l.Epoch, Limit: 100})
	}
	return cs
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

func TestClaimWritesTheWindowAndRecordPublishes(t *testing.T) {
	t.Parallel()
	b := setup(t, 10*time.Second)
	want := map[uuid.UUID]bool{}
	for i := range 20 {
		want[b.add(t, fmt.Sprint("k", i%3))] = true
	}
	leases := b.takeAll(t, b.store, false)
	if len(leases) != 16 {
		t.Fatalf("took %d lanes, want 16", len(leases))
	}
	rows := b.claim(t, b.store, leases)
	if len(rows) != 20 {
		t.Fatalf("claimed %d rows, want 20", len(rows))
	}
	var shown int
	if err := b.db.QueryRow(t.Context(), `select count(*) from messaging_outbox_status where status = 'CLAIMED'`).Scan(&shown); err != nil {
		t.Fatal(err)
	}
	if shown != 20 {
		t.Errorf("the view shows %d rows CLAIMED, want 20", shown)
	}
	var outs []outbox.Outcome
	for _, r := range rows {
		if !want[r.MessageID] {
			t.Errorf("row twice or unknown")
		}
		delete(want, r.MessageID)
		outs = append(outs, outcome(r, epochOf(leases, r.Lane), outbox.Published, confirmed()))
	}
	missed, err := b.store.Record(t.Context(), outs)
	if err != nil || len(missed) != 0 {
		t.Fatalf("record: missed %d, %v", len(missed), err)
	}
	st, attempts, _ := b.status(t, rows[0].MessageID)
	if st != "PUBLISHED" || attempts != 1 {
		t.Errorf("row is %s after %d attempts, want PUBLISHED after 1", st, attempts)
	}
	if again := b.claim(t, b.store, leases); len(again) != 0 {
		t.Errorf("claimed %d published rows again", len(again))
	}
}

func TestAStaleOwnerChangesNothingButConfirms(t *testing.T) {
	t.Parallel()
	b := setup(t, 10*time.Second)
	first, second := b.add(t, "a"), b.add(t, "b")
	old := b.takeAll(t, b.store, false)
	rows := b.claim(t, b.store, old)
	if _, err := b.db.Exec(t.Context(), `update messaging_outbox_lane set lease_until = '-infinity'`); err != nil {
		t.Fatal(err)
	}
	other := b.another()
	if got := b.takeAll(t, other, false); len(got) != 0 {
		t.Fatalf("took %d expired lanes without leave to", len(got))
	}
	taken := b.takeAll(t, other, true)
	if len(taken) != 16 {
		t.Fatalf("took %d expired lanes, want 16", len(taken))
	}
	var outs []outbox.Outcome
	for _, r := range rows {
		st, res := outbox.Published, confirmed()
		if r.MessageID == second {
			st, res = outbox.RetryableFailure, failed(messaging.Rejected, messaging.CodeNacked)
		}
		outs = append(outs, outcome(r, epochOf(old, r.Lane), st, res))
	}
	missed, err := b.store.Record(t.Context(), outs)
	if err != nil || len(missed) != 2 {
		t.Fatalf("a stale owner recorded: missed %d of 2, %v", len(missed), err)
	}
	for _, id := range []uuid.UUID{first, second} {
		if st, attempts, _ := b.status(t, id); st != "PENDING" || attempts != 0 {
			t.Errorf("row is %s with %d attempts, want PENDING with 0", st, attempts)
		}
	}
	changed, err := b.store.RecordLate(t.Context(), []outbox.Late{{ID: first, Result: confirmed()}})
	if err != nil || len(changed) != 1 {
		t.Fatalf("late: %d rows, %v", len(changed), err)
	}
	if st, _, _ := b.status(t, first); st != "PUBLISHED" {
		t.Errorf("row is %s after a late confirmation, want PUBLISHED", st)
	}
	for _, l := range taken {
		if !l.OpenWindow {
			continue
		}
		if _, _, err := other.TakeOver(t.Context(), l, true, 3); err != nil {
			t.Fatal(err)
		}
	}
	if st, attempts, ambiguous := b.status(t, second); st != "AMBIGUOUS" || attempts != 0 || ambiguous != 1 {
		t.Errorf("row is %s, attempts %d, ambiguous %d, want AMBIGUOUS 0 1", st, attempts, ambiguous)
	}
	if st, _, _ := b.status(t, first); st != "PUBLISHED" {
		t.Errorf("the take-over turned a published row into %s", st)
	}
	if _, _, err := b.store.TakeOver(t.Context(), old[0], true, 3); !errors.Is(err, outbox.ErrLeaseLost) {
		t.Errorf("take-over of a lost lane: %v, want ErrLeaseLost", err)
	}
}

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
	run, err := b.store.ClaimRuns(t.Context(), destination, []outbox.LaneClaim{{Lane: lane, Epoch: epoch}}, []outbox.Key{key}, 10, true, 1<<20)
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
			if n, _, err := other.TakeOver(t.Context(), l, true, 3); err != nil || n != 2 {
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
		run, err := b.store.ClaimRuns(t.Context(), destination, []outbox.LaneClaim{{Lane: row.Lane, Epoch: epoch}}, []outbox.Key{key}, 10, block, 1<<20)
		if err != nil || (len(run) == 0) != block {
			t.Errorf("block %t: claimed %d rows, %v", block, len(run), err)
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
	claim := []outbox.LaneClaim{{Lane: row.Lane, Epoch: epoch, Limit: 10}}
	if rows, err := b.store.ClaimDeferred(t.Context(), destination, claim, true, []uuid.UUID{id}, 1<<20); err != nil || len(rows) != 0 {
		t.Errorf("claimed %d unresolved rows, %v", len(rows), err)
	}
	rows, err := b.store.ClaimDeferred(t.Context(), destination, claim, true, nil, 1<<20)
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
	if err := b.store.GiveBack(t.Context(), lanes, epochs); err != nil {
		t.Fatal(err)
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

func TestB53_PruneGoesByTheTimeOfPublishing(t *testing.T) {
	t.Parallel()
	b := setup(t, 10*time.Second)
	// Ids, and so the order of pruning, are as old as the rows.
	_, err := b.db.Exec(t.Context(), `
	  with r(status, published_at) as (values ('PENDING', null), ('PARKED', null), ('PUBLISHED', now()), ('PUBLISHED', now() - interval '8 days'))
	  insert into messaging_outbox (message_id, destination, message_type, producer, payload)
	  select ('01000000-0000-7000-8000-00000000000' || row_number() over ())::uuid, 'orders', 'order.created', 'shop', '{}' from r`)
	if err != nil {
		t.Fatal(err)
	}
	_, err = b.db.Exec(t.Context(), `
	  update messaging_outbox set status = 'PARKED' where message_id = '01000000-0000-7000-8000-000000000002';
	  update messaging_outbox set status = 'PUBLISHED', published_at = now() where message_id = '01000000-0000-7000-8000-000000000003';
	  update messaging_outbox set status = 'PUBLISHED', published_at = now() - interval '8 days' where message_id = '01000000-0000-7000-8000-000000000004'`)
	if err != nil {
		t.Fatal(err)
	}
	var deleted int64
	mine, err := b.store.Prune(t.Context(), 7*24*time.Hour, func(n int64) { deleted += n })
	if err != nil || !mine || deleted != 1 {
		t.Fatalf("prune: mine %t, deleted %d, %v, want true and 1", mine, deleted, err)
	}
	var left int
	if err := b.db.QueryRow(t.Context(), `select count(*) from messaging_outbox`).Scan(&left); err != nil || left != 3 {
		t.Errorf("%d rows left, %v, want 3", left, err)
	}
}

func TestConflictsAreRepeated(t *testing.T) {
	t.Parallel()
	b := setup(t, 10*time.Second)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := b.store.Heartbeat(ctx, nil, false); !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled call gave %v", err)
	}
	if err := b.store.Heartbeat(t.Context(), []string{destination}, false); err != nil {
		t.Fatal(err)
	}
	peers, err := b.store.Peers(t.Context())
	if err != nil || len(peers) != 1 || peers[0].ID != b.store.Owner() || peers[0].Serves[0] != destination {
		t.Errorf("peers: %+v %v", peers, err)
	}
	if err := b.store.Leave(t.Context()); err != nil {
		t.Fatal(err)
	}
	if peers, err := b.store.Peers(t.Context()); err != nil || len(peers) != 0 {
		t.Errorf("peers after leaving: %+v %v", peers, err)
	}
}

// Whatever bytes an error text holds, the failure is stored: cleaned, cut, and the others of the batch beside it.
func TestB69_AnyErrorTextIsStored(t *testing.T) {
	t.Parallel()
	b := setup(t, 10*time.Second)
	for range 10 {
		b.add(t, "k")
	}
	leases := b.takeAll(t, b.store, false)
	rows := b.claim(t, b.store, leases)
	if len(rows) != 10 {
		t.Fatalf("claimed %d rows", len(rows))
	}
	odd := "a\x00b\xff\xfec" + strings.Repeat("é", 512<<10)
	outcomes := make([]outbox.Outcome, len(rows))
	for i, r := range rows {
		outcomes[i] = outcome(r, epochOf(leases, r.Lane), outbox.Published, confirmed())
	}
	refused := failed(messaging.Rejected, odd)
	refused.Failure = messaging.NewFailure(messaging.CategoryTransientInfrastructure, odd, odd)
	refused.Position = &messaging.BrokerPosition{Broker: "k", Text: odd}
	outcomes[4] = outcome(rows[4], epochOf(leases, rows[4].Lane), outbox.RetryableFailure, refused)
	outcomes[5].Result.Position = &messaging.BrokerPosition{Broker: "k", Text: odd}
	missed, err := b.store.Record(t.Context(), outcomes)
	if err != nil || len(missed) != 0 {
		t.Fatalf("missed %d, %v", len(missed), err)
	}
	var code, detail string
	var attempts int
	if err := b.db.QueryRow(t.Context(), `select last_failure_code, last_failure_detail, attempts from messaging_outbox where message_id = $1`, rows[4].MessageID).
		Scan(&code, &detail, &attempts); err != nil {
		t.Fatal(err)
	}
	if n := utf8.RuneCountInString(detail); n != 500 || !strings.HasPrefix(detail, "a\uFFFDb\uFFFDc") || utf8.RuneCountInString(code) != 160 || attempts != 1 {
		t.Errorf("%d characters that begin with %q, a code of %d, %d attempts", n, detail[:min(len(detail), 12)], utf8.RuneCountInString(code), attempts)
	}
	for i, r := range rows {
		if status, _, _ := b.status(t, r.MessageID); i != 4 && status != "PUBLISHED" {
			t.Errorf("row %d is %s", i, status)
		}
	}
}
