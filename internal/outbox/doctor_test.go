package outbox_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/backend-skeleton/relay/internal/brokertest"
	"github.com/backend-skeleton/relay/internal/dbtest"
	"github.com/backend-skeleton/relay/internal/outbox"
)

// Each finding is provoked on a real server, and is not there before.
func TestDiagnoseFindsWhatIsWrong(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		code, evidence string
		limits         outbox.Limits
		sql            []string
		hold           bool // keep a transaction open
	}{
		"missing index":  {outbox.FindingIndexMissing, "ix_messaging_outbox_waiting", outbox.Limits{}, []string{`drop index ix_messaging_outbox_waiting`}, false},
		"autovacuum off": {outbox.FindingAutovacuumOff, "messaging_outbox", outbox.Limits{}, []string{`alter table messaging_outbox set (autovacuum_enabled = off)`}, false},
		"dead rows": {outbox.FindingAutovacuumBehind, "messaging_outbox ", outbox.Limits{Dead: 500}, []string{
			`alter table messaging_outbox set (autovacuum_enabled = off)`,
			`select messaging_outbox_add('orders', 'order.created', 'shop', '{}') from generate_series(1, 1000)`,
			`delete from messaging_outbox`, `select pg_stat_force_next_flush()`,
		}, false},
		"old snapshot": {outbox.FindingOldSnapshot, "session (process ", outbox.Limits{Snapshot: time.Millisecond}, nil, true},
		"clock":        {outbox.FindingClockSkew, "differ by at least 59m", outbox.Limits{Now: func() time.Time { return time.Now().Add(time.Hour) }}, nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := dbtest.New(t, dbtest.OwnDatabase())
			store := outbox.New(db.Pool, outbox.Config{})
			find := func(l outbox.Limits) (evidence string) {
				findings, err := store.Diagnose(t.Context(), l)
				if err != nil {
					t.Fatal(err)
				}
				for _, f := range findings {
					if f.Fix == "" {
						t.Errorf("%s has no fix", f.Code)
					}
					if f.Code == c.code && strings.Contains(f.Evidence, c.evidence) {
						evidence = f.Evidence
					}
				}
				return evidence
			}
			if got := find(outbox.Limits{}); got != "" {
				t.Fatalf("found before it was there: %s", got)
			}
			for _, sql := range c.sql {
				if _, err := db.Exec(t.Context(), sql); err != nil {
					t.Fatal(err)
				}
			}
			if c.hold {
				tx, err := db.Begin(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				defer tx.Rollback(t.Context()) // it only ends the transaction
				if _, err := tx.Exec(t.Context(), `select pg_current_xact_id()`); err != nil {
					t.Fatal(err)
				}
			}
			brokertest.Eventually(t, 15*time.Second, c.code, func() bool { return find(c.limits) != "" }) // statistics arrive late
		})
	}
}

// An invalid index, a slot without reader, and roles that were not given their rights.
func TestDiagnoseFindsIndexSlotAndRights(t *testing.T) {
	t.Parallel()
	db := dbtest.New(t, dbtest.OwnDatabase())
	slot := "relay_test_" + strings.ReplaceAll(uuid.NewString(), "-", "")
	for _, sql := range []string{
		`update pg_index set indisvalid = false where indexrelid = 'ix_messaging_outbox_parked'::regclass`,
		`do $$ begin create role relay_reader nologin; exception when duplicate_object or unique_violation then null; end $$`,
		`select pg_create_physical_replication_slot('` + slot + `', true)`,
	} {
		if _, err := db.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	defer func() {
		if _, err := db.Exec(context.Background(), `select pg_drop_replication_slot($1)`, slot); err != nil {
			t.Errorf("drop the slot: %v", err)
		}
	}()
	findings, err := outbox.New(db.Pool, outbox.Config{}).Diagnose(t.Context(), outbox.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	for code, evidence := range map[string]string{
		outbox.FindingIndexInvalid:  "ix_messaging_outbox_parked",
		outbox.FindingInactiveSlot:  slot,
		outbox.FindingRightsMissing: "role relay_reader lacks",
	} {
		found := false
		for _, f := range findings {
			found = found || f.Code == code && strings.Contains(f.Evidence, evidence)
		}
		if !found {
			t.Errorf("%s was not found in %v", code, findings)
		}
	}
}
