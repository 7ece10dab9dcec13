package outbox_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/backend-skeleton/relay/internal/outbox"
	"github.com/backend-skeleton/relay/messaging"
)

// Rows that were confirmed by different evidence are recorded together, each with its own position, whatever is in it.
func TestEachConfirmedRowKeepsItsEvidence(t *testing.T) {
	t.Parallel()
	b := setup(t, time.Minute)
	positions := []string{"kafka:t/0/17", "", `rabbitmq:"x"/\ k/3`, "kafka:größe/0/1", "a\nb<&>", strings.Repeat("é", 600), "nul\x00"}
	want := map[uuid.UUID]string{}
	for _, p := range positions {
		id := b.add(t, "")
		p = strings.ReplaceAll(p, "\x00", "\uFFFD")
		want[id] = string([]rune(p)[:min(len([]rune(p)), 500)])
	}
	leases := b.takeAll(t, b.store, false)
	rows := b.claim(t, b.store, leases)
	slices.SortFunc(rows, func(a, b outbox.Row) int { return int(a.Seq - b.Seq) })
	var outcomes []outbox.Outcome
	for i, row := range rows {
		r := confirmed()
		r.Position.Text = positions[i]
		if i%2 == 1 {
			r.Routing, r.Evidence.Level = messaging.RoutingNotApplicable, messaging.LevelReplicationOrPersistenceAck
		}
		outcomes = append(outcomes, outcome(row, epochOf(leases, row.Lane), outbox.Published, r))
	}
	outcomes[3].Result.Position = nil
	want[outcomes[3].ID] = ""
	if missed, err := b.store.Record(t.Context(), outcomes); err != nil || len(missed) > 0 || len(outcomes) != len(positions) {
		t.Fatalf("missed %v of %d, %v", missed, len(outcomes), err)
	}
	for i := range outcomes {
		var position, level, routing string
		err := b.db.QueryRow(t.Context(), `select coalesce(last_position, ''), last_confirmation::text, last_routing::text from messaging_outbox
			where message_id = $1 and status = 'PUBLISHED' and attempts = 1 and published_by = $2 and published_at between created_at and clock_timestamp()`,
			outcomes[i].ID, b.store.Owner()).Scan(&position, &level, &routing)
		if err != nil {
			t.Fatal(err)
		}
		if r := outcomes[i].Result; position != want[outcomes[i].ID] || level != r.Evidence.Level.String() || routing != r.Routing.String() {
			t.Errorf("row %d: position %q, %s, %s", i, position, level, routing)
		}
	}
}

// Of rows that were confirmed together exactly those are missed that this record did not write, whoever wrote them.
func TestMissedConfirmationsAreNamed(t *testing.T) {
	t.Parallel()
	b := setup(t, time.Minute)
	for range 40 {
		b.add(t, "")
	}
	leases := b.takeAll(t, b.store, false)
	var outcomes []outbox.Outcome
	for _, row := range b.claim(t, b.store, leases) {
		outcomes = append(outcomes, outcome(row, epochOf(leases, row.Lane), outbox.Published, confirmed()))
	}
	// One is published already, by a late answer of this very process; one lane has another owner.
	late := outcomes[7]
	if _, err := b.store.RecordLate(t.Context(), []outbox.Late{{ID: late.ID, Result: late.Result}}); err != nil {
		t.Fatal(err)
	}
	lost := outcomes[0].Lane
	if late.Lane == lost {
		lost = outcomes[len(outcomes)-1].Lane
	}
	if _, err := b.db.Exec(t.Context(), `update messaging_outbox_lane set epoch = epoch + 1 where lane = $1`, lost); err != nil {
		t.Fatal(err)
	}
	want := []uuid.UUID{late.ID}
	for _, o := range outcomes {
		if o.Lane == lost && o.ID != late.ID {
			want = append(want, o.ID)
		}
	}
	missed, err := b.store.Record(t.Context(), outcomes)
	if err != nil {
		t.Fatal(err)
	}
	order := func(a, b uuid.UUID) int { return strings.Compare(a.String(), b.String()) }
	slices.SortFunc(missed, order)
	slices.SortFunc(want, order)
	if !slices.Equal(missed, want) {
		t.Errorf("missed %d rows, want %d", len(missed), len(want))
	}
	if missed, err = b.store.Record(t.Context(), outcomes); err != nil || len(missed) != len(outcomes) {
		t.Errorf("the same again: missed %d, %v, want all", len(missed), err)
	}
}
