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

// malady is something that makes an outbox slow or unsafe, and its cure.
type malady struct {
	code, evidence string
	limits         outbox.Limits
	make, mend     []string
	// hold keeps a transaction open while it is looked for.
	hold bool
}

var maladies = map[string]malady{
	"missing index": {
		code: outbox.FindingIndexMissing, evidence: "ix_messaging_outbox_waiting",
		make: []string{`drop index ix_messaging_outbox_waiting`},
		mend: []string{`create index ix_messaging_outbox_waiting on messaging_outbox (lane, ordering_key, seq)
		  where status in ('HELD', 'RETRYABLE_FAILURE', 'AMBIGUOUS') and ordering_key is not null`},
	},
	"invalid index": {
		code: outbox.FindingIndexInvalid, evidence: "ix_messaging_outbox_parked",
		make: []string{`update pg_index set indisvalid = false where indexrelid = 'ix_messaging_outbox_parked'::regclass`},
		mend: []string{`reindex index concurrently ix_messaging_outbox_parked`},
	},
	"autovacuum off": {
		code: outbox.FindingAutovacuumOff, evidence: "messaging_outbox_archive",
		make: []string{`alter table messaging_outbox_archive set (autovacuum_enabled = off)`},
		mend: []string{`alter table messaging_outbox_archive reset (autovacuum_enabled)`},
	},
	"dead rows": {
		code: outbox.FindingAutovacuumBehind, evidence: "messaging_outbox ", limits: outbox.Limits{Dead: 500},
		make: []string{
			`alter table messaging_outbox set (autovacuum_enabled = off)`,
			`select messaging_outbox_add('orders', 'order.created', 'shop', '{}') from generate_series(1, 1000)`,
			`delete from messaging_outbox`, `select pg_stat_force_next_flush()`,
		},
		mend: []string{`vacuum messaging_outbox`},
	},
	"old snapshot": {code: outbox.FindingOldSnapshot, evidence: "SESSION (process ", limits: outbox.Limits{Snapshot: time.Millisecond}, hold: true},
	"retention": {
		code: outbox.FindingRetentionBehind, evidence: "; 10 of the next", limits: outbox.Limits{Keep: 24 * time.Hour},
		make: []string{
			`insert into messaging_outbox (message_id, destination, message_type, producer, payload)
			 select ('01000000-0000-7000-8000-' || lpad(to_hex(i), 12, '0'))::uuid, 'orders', 'order.created', 'shop', '{}' from generate_series(1, 10) i`,
			`update messaging_outbox set status = 'PUBLISHED', published_at = now() - interval '3 days'`,
		},
		mend: []string{`delete from messaging_outbox`},
	},
	"lanes missing": {
		code: outbox.FindingLanesMissing, evidence: "destination orders has 15 lanes",
		make: []string{`select messaging_outbox_register('{orders}')`, `delete from messaging_outbox_lane where slot = 3`},
		mend: []string{`select messaging_outbox_register('{orders}')`},
	},
	"a lane of nobody": {
		code: outbox.FindingLaneOdd, evidence: "belongs to a relay that is not in the fleet",
		make: []string{
			`select messaging_outbox_register('{orders}')`,
			`update messaging_outbox_lane set owner = messaging_uuidv7(), lease_ttl = '1 hour', lease_until = clock_timestamp() + interval '59 minutes' where slot < 2`,
		},
		mend: []string{`update messaging_outbox_lane set owner = null, lease_until = '-infinity'`},
	},
	"a lease without end": {
		code: outbox.FindingLaneOdd, evidence: "is leased for longer than its lease lasts",
		make: []string{
			`select messaging_outbox_register('{orders}')`,
			`update messaging_outbox_lane set owner = messaging_uuidv7(), lease_ttl = '30 s', lease_until = clock_timestamp() + interval '1 year' where slot = 7`,
		},
		mend: []string{`update messaging_outbox_lane set owner = null, lease_until = '-infinity'`},
	},
	"a lane of a stranger": {
		code: outbox.FindingLaneOdd, evidence: "belongs to a relay that does not serve the destination",
		make: []string{
			`select messaging_outbox_register('{orders}')`,
			`insert into messaging_outbox_relay (id, serves) values ('01000000-0000-7000-8000-000000000001', '{mails}')`,
			`update messaging_outbox_lane set owner = '01000000-0000-7000-8000-000000000001', lease_ttl = '1 hour', lease_until = clock_timestamp() + interval '59 minutes'`,
		},
		mend: []string{`update messaging_outbox_relay set serves = '{mails,orders}'`},
	},
	"a lane that nobody takes": {
		code: outbox.FindingLaneOdd, evidence: "has expired, and no running relay takes it",
		make: []string{
			`select messaging_outbox_register('{orders}')`,
			`insert into messaging_outbox_relay (id, serves) values (messaging_uuidv7(), '{orders}')`,
			`update messaging_outbox_lane set owner = messaging_uuidv7(), lease_ttl = '30 s', lease_until = clock_timestamp() - interval '5 minutes' where slot = 0`,
		},
		mend: []string{`update messaging_outbox_lane set owner = null, lease_until = '-infinity'`},
	},
	"nobody serves": {
		code: outbox.FindingUnserved, evidence: "rows wait for destination mails",
		make: []string{
			`select messaging_outbox_register('{mails, orders}')`,
			`insert into messaging_outbox_relay (id, serves) values (messaging_uuidv7(), '{orders}')`,
			`select messaging_outbox_add('mails', 'mail.wanted', 'shop', '{}', available_at => now() + interval '1 hour')`,
		},
		mend: []string{`update messaging_outbox_relay set serves = '{mails, orders}'`},
	},
}

// Each finding is provoked on a real server: it is not there before, and goes when it is mended.
func TestDiagnoseFindsWhatIsWrong(t *testing.T) {
	t.Parallel()
	for name, m := range maladies {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := dbtest.New(t, dbtest.OwnDatabase())
			run := func(statements []string) {
				for _, sql := range statements {
					if _, err := db.Exec(t.Context(), sql); err != nil {
						t.Fatalf("%v\nin %s", err, sql)
					}
				}
			}
			find := func(l outbox.Limits) string { return evidence(t, outbox.New(db.Pool, outbox.Config{}), l, m) }
			if got := find(outbox.Limits{Keep: m.limits.Keep}); got != "" {
				t.Fatalf("found before it was there: %s", got)
			}
			run(m.make)
			if m.hold {
				tx, err := db.Begin(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				defer tx.Rollback(t.Context()) // it only ends the transaction
				if _, err := tx.Exec(t.Context(), `select pg_current_xact_id()`); err != nil {
					t.Fatal(err)
				}
				brokertest.Eventually(t, 15*time.Second, m.code, func() bool { return find(m.limits) != "" })
				if err := tx.Rollback(t.Context()); err != nil {
					t.Fatal(err)
				}
			} else {
				brokertest.Eventually(t, 15*time.Second, m.code, func() bool { return find(m.limits) != "" }) // statistics arrive late
			}
			run(m.mend)
			brokertest.Eventually(t, 15*time.Second, m.code+" is gone", func() bool { return find(m.limits) == "" })
		})
	}
}

// evidence of the malady; empty where it is not found.
func evidence(t *testing.T, store *outbox.Store, l outbox.Limits, m malady) (found string) {
	t.Helper()
	findings, err := store.Diagnose(t.Context(), l)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range findings {
		if f.Fix == "" {
			t.Errorf("%s has no fix", f.Code)
		}
		if f.Code == m.code && strings.Contains(f.Evidence, m.evidence) {
			found = f.Evidence
		}
	}
	return found
}

// The clocks are compared with what this host says; a slot and roles belong to the whole server.
func TestDiagnoseFindsClockSlotAndRights(t *testing.T) {
	t.Parallel()
	db := dbtest.New(t, dbtest.OwnDatabase())
	store := outbox.New(db.Pool, outbox.Config{})
	skewed := outbox.Limits{Now: func() time.Time { return time.Now().Add(90 * time.Minute) }}
	clock := malady{code: outbox.FindingClockSkew, evidence: "differ by at least 1h"}
	if evidence(t, store, skewed, clock) == "" {
		t.Error("a clock that is ahead by an hour and a half was not found")
	}
	if got := evidence(t, store, outbox.Limits{Clock: time.Minute}, malady{code: outbox.FindingClockSkew}); got != "" {
		t.Errorf("the clock of the same machine: %s", got)
	}

	exec := func(sql string, args ...any) {
		t.Helper()
		if _, err := db.Exec(context.WithoutCancel(t.Context()), sql, args...); err != nil {
			t.Fatal(err)
		}
	}
	slot := "relay_test_" + strings.ReplaceAll(uuid.NewString(), "-", "")
	idle := malady{code: outbox.FindingInactiveSlot, evidence: slot}
	exec(`select pg_create_physical_replication_slot($1, true)`, slot)
	if evidence(t, store, outbox.Limits{}, idle) == "" {
		t.Error("a slot without reader was not found")
	}
	exec(`select pg_drop_replication_slot($1)`, slot)
	if got := evidence(t, store, outbox.Limits{}, idle); got != "" {
		t.Errorf("a dropped slot: %s", got)
	}

	lacks := malady{code: outbox.FindingRightsMissing, evidence: "role relay_reader lacks"}
	exec(`do $$ begin create role relay_reader nologin; exception when duplicate_object or unique_violation then null; end $$`)
	if evidence(t, store, outbox.Limits{}, lacks) == "" {
		t.Error("a role without its rights was not found")
	}
	exec(`grant select on messaging_outbox_status to relay_reader`)
	if got := evidence(t, store, outbox.Limits{}, lacks); got != "" {
		t.Errorf("a role with its rights: %s", got)
	}
}

// A relay's own user is asked for only when the doctor looks on its behalf.
func TestDiagnoseFindsAUserWithoutRights(t *testing.T) {
	t.Parallel()
	db := dbtest.New(t, dbtest.OwnDatabase(), dbtest.MaxConns(1))
	user := "t_" + strings.ReplaceAll(uuid.NewString(), "-", "")
	exec := func(sql string) {
		t.Helper()
		if _, err := db.Exec(context.WithoutCancel(t.Context()), sql); err != nil {
			t.Fatal(err)
		}
	}
	exec(`create role ` + user)
	exec(`grant select on messaging_outbox_destination, messaging_outbox_lane, messaging_outbox_relay, messaging_outbox_task, messaging_outbox to ` + user)
	exec(`set role ` + user)
	store := outbox.New(db.Pool, outbox.Config{})
	lacks := malady{code: outbox.FindingRightsMissing, evidence: "the relay's user " + user + " lacks update, delete on messaging_outbox"}
	if got := evidence(t, store, outbox.Limits{}, lacks); got != "" {
		t.Errorf("nobody asked for it: %s", got)
	}
	if evidence(t, store, outbox.Limits{AsRelay: true}, lacks) == "" {
		t.Error("the user's missing rights were not found")
	}
	exec(`reset role`)
	exec(`grant all on all tables in schema public to ` + user)
	exec(`set role ` + user)
	if got := evidence(t, store, outbox.Limits{AsRelay: true}, malady{code: outbox.FindingRightsMissing, evidence: user}); got != "" {
		t.Errorf("a user with all rights: %s", got)
	}
	exec(`reset role`)
	exec(`drop owned by ` + user)
	exec(`drop role ` + user)
}
