package outbox_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/backend-skeleton/relay/internal/outbox"
	"github.com/backend-skeleton/relay/messaging"
)

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
		if _, _, err := other.TakeOver(t.Context(), l, true, false, 3); err != nil {
			t.Fatal(err)
		}
	}
	if st, attempts, ambiguous := b.status(t, second); st != "AMBIGUOUS" || attempts != 0 || ambiguous != 1 {
		t.Errorf("row is %s, attempts %d, ambiguous %d, want AMBIGUOUS 0 1", st, attempts, ambiguous)
	}
	if st, _, _ := b.status(t, first); st != "PUBLISHED" {
		t.Errorf("the take-over turned a published row into %s", st)
	}
	if _, _, err := b.store.TakeOver(t.Context(), old[0], true, false, 3); !errors.Is(err, outbox.ErrLeaseLost) {
		t.Errorf("take-over of a lost lane: %v, want ErrLeaseLost", err)
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
