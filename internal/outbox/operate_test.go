package outbox_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/backend-skeleton/relay/internal/dbtest"
	"github.com/backend-skeleton/relay/internal/outbox"
)

// Each answer of an operation, in the order of the targets, over more rows than one step takes.
func TestOperateAnswersForEachRow(t *testing.T) {
	t.Parallel()
	b := setup(t, 10*time.Second)
	onWire := b.add(t, "a")
	leases := b.takeAll(t, b.store, false)
	if rows := b.claim(t, b.store, leases); len(rows) != 1 {
		t.Fatalf("claimed %d rows, want 1", len(rows))
	}
	unknown := uuid.New()
	free, stale, published := b.add(t, "b"), b.add(t, "c"), b.add(t, "d")
	if _, err := b.db.Exec(t.Context(), `update messaging_outbox set status = 'PUBLISHED', published_at = now() where message_id = $1`, published); err != nil {
		t.Fatal(err)
	}
	targets := []outbox.Target{{MessageID: onWire}, {MessageID: unknown}, {MessageID: stale, Version: 7}, {MessageID: published}, {MessageID: free}, {MessageID: free}}
	want := []outbox.Result{outbox.InFlight, outbox.NotFound, outbox.Changed, outbox.NotApplicable, outbox.Done, outbox.Changed}
	for range 300 {
		targets, want = append(targets, outbox.Target{MessageID: uuid.New()}), append(want, outbox.NotFound)
	}
	got, err := b.operator(t).Operate(t.Context(), outbox.Park, targets, "why", "somebody")
	if err != nil || len(got) != len(want) {
		t.Fatalf("%d answers, %v, want %d", len(got), err, len(want))
	}
	for i := range want {
		if got[i].Result != want[i] || got[i].MessageID != targets[i].MessageID {
			t.Errorf("answer %d is %+v, want %s", i, got[i], want[i])
		}
	}
	if status, attempts, _ := b.status(t, onWire); status != "PENDING" || attempts != 0 {
		t.Errorf("the row on the wire is %s with %d attempts", status, attempts)
	}
	var audited int
	if err := b.db.QueryRow(t.Context(), `select count(*) from messaging_audit`).Scan(&audited); err != nil || audited != 1 {
		t.Errorf("%d audit rows, %v, want one for the one effect", audited, err)
	}
}

func (b *bundle) operator(t *testing.T) *outbox.Store {
	t.Helper()
	return outbox.New(b.db.As(t, dbtest.Operator), outbox.Config{})
}

// Without a reason nothing is done; nor for a row that another transaction holds, which is not waited for.
func TestOperateAsksForAReasonAndWaitsForNoRow(t *testing.T) {
	t.Parallel()
	b := setup(t, 10*time.Second)
	target := []outbox.Target{{MessageID: b.add(t, "a")}}
	for _, reason := range []string{"", " \t", strings.Repeat("x", 501)} {
		if _, err := b.operator(t).Operate(t.Context(), outbox.Park, target, reason, "somebody"); err == nil {
			t.Errorf("a reason of %d characters was taken", len(reason))
		}
	}
	if _, err := b.db.Exec(t.Context(), `select messaging_outbox_operate('PARK', array[$1::uuid], array[0], ' ')`, target[0].MessageID); err == nil {
		t.Error("the database took a blank reason")
	}
	tx, err := b.db.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(t.Context()) // it only lets the row go
	if _, err := tx.Exec(t.Context(), `select from messaging_outbox where message_id = $1 for update`, target[0].MessageID); err != nil {
		t.Fatal(err)
	}
	if got, err := b.operator(t).Operate(t.Context(), outbox.Park, target, "why", "somebody"); err != nil || len(got) != 1 || got[0].Result != outbox.InFlight {
		t.Errorf("a locked row: %v, %v, want IN_FLIGHT", got, err)
	}
}
