package outbox

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/backend-skeleton/relay/internal/dbtest"
	"github.com/backend-skeleton/relay/internal/outbox/outboxdb"
)

// A page costs what it holds, whatever the tables hold.
func TestPruneReadsNoWholeTable(t *testing.T) {
	t.Parallel()
	db := dbtest.New(t)
	tx, err := db.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(context.Background()) }()
	if _, err := tx.Exec(t.Context(), settings); err != nil {
		t.Fatal(err)
	}
	q := outboxdb.New(explain{tx})
	p := outboxdb.PrunePageParams{Task: retentionTask, After: uuid.Nil, Before: uuid.Max, Step: 100, Keep: time.Hour, Ttl: taskLease}
	for name, run := range map[string]func() error{
		"messaging_outbox":         func() error { _, err := q.PrunePage(t.Context(), p); return err },
		"messaging_outbox (moved)": func() error { _, err := q.ArchivePage(t.Context(), outboxdb.ArchivePageParams(p)); return err },
		"messaging_outbox_archive": func() error {
			_, err := q.PruneArchivePage(t.Context(), outboxdb.PruneArchivePageParams(p))
			return err
		},
	} {
		plan := fmt.Sprint(run())
		table, _, _ := strings.Cut(name, " ")
		if !strings.Contains(plan, "using "+table+"_pkey") || strings.Contains(plan, "Seq Scan on "+table+" ") {
			t.Errorf("%s:\n%s", name, plan)
		}
	}
}

// Ids are compared by the time in them.
func TestIDsAtATime(t *testing.T) {
	t.Parallel()
	id, err := uuid.NewV7()
	if err != nil {
		t.Fatal(err)
	}
	made := time.UnixMilli(int64(id[0])<<40 | int64(id[1])<<32 | int64(id[2])<<24 | int64(id[3])<<16 | int64(id[4])<<8 | int64(id[5]))
	if in := (interval{idAt(made), id}); !in.holdsAny() {
		t.Error("the bound of its own millisecond is not before the id")
	}
	if in := (interval{id, idAt(made.Add(time.Millisecond))}); !in.holdsAny() {
		t.Error("the bound of the next millisecond is not behind the id")
	}
	if idAt(time.Unix(-1, 0)) != uuid.Nil {
		t.Error("a time before 1970")
	}
}

func TestPagesShrinkWhereTheyAreSlow(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		step, most int
		took       time.Duration
		want       int
	}{
		{5000, 5000, 10 * time.Millisecond, 5000},
		{5000, 5000, time.Second, 2500},
		{150, 5000, time.Second, 100},
		{5, 5, time.Second, 5},
		{2500, 5000, 10 * time.Millisecond, 5000},
		{2500, 5000, 50 * time.Millisecond, 2500},
	} {
		if got := nextStep(c.step, c.most, c.took); got != c.want {
			t.Errorf("after %d rows in %v, at most %d: %d, want %d", c.step, c.took, c.most, got, c.want)
		}
	}
}
