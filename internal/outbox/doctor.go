package outbox

import (
	"context"
	"fmt"
	"time"

	"github.com/backend-skeleton/relay/internal/outbox/outboxdb"
)

// The codes of findings; programs may rely on them.
const (
	// FindingOldSnapshot: a transaction has been open for so long that dead rows cannot be removed.
	FindingOldSnapshot = "OLD_SNAPSHOT"
	// FindingInactiveSlot: a replication slot that nobody reads keeps the log, and may keep dead rows.
	FindingInactiveSlot = "INACTIVE_SLOT"
	// FindingIndexMissing: an index is not there.
	FindingIndexMissing = "INDEX_MISSING"
	// FindingIndexInvalid: an index is there and not valid.
	FindingIndexInvalid = "INDEX_INVALID"
	// FindingAutovacuumOff: nobody removes dead rows.
	FindingAutovacuumOff = "AUTOVACUUM_OFF"
	// FindingAutovacuumBehind: more rows are dead than vacuum should leave.
	FindingAutovacuumBehind = "AUTOVACUUM_BEHIND"
	// FindingClockSkew: the clocks of this host and of the database differ.
	FindingClockSkew = "CLOCK_SKEW"
	// FindingRightsMissing: a role of the product lacks its rights.
	FindingRightsMissing = "RIGHTS_MISSING"
)

// Finding is something that is not as it should be.
type Finding struct {
	Code string `json:"code"`
	// Evidence is what was seen, Fix what to do about it.
	Evidence string `json:"evidence"`
	Fix      string `json:"fix"`
}

// DefaultSnapshotAge is from where on an open transaction is a finding.
const DefaultSnapshotAge = 5 * time.Minute

// Limits say from where on something is a finding.
type Limits struct {
	// Snapshot is the age of a transaction; default 5 minutes.
	Snapshot time.Duration
	// Clock is the difference of the clocks, beyond what the question itself took; default 1 s.
	Clock time.Duration
	// Dead is the number of dead rows of a table, where they are also more than a fifth of the living; default 100,000.
	Dead int64
	// Now is the clock of this host; default time.Now.
	Now func() time.Time
}

func (l *Limits) setDefaults() {
	if l.Snapshot <= 0 {
		l.Snapshot = DefaultSnapshotAge
	}
	if l.Clock <= 0 {
		l.Clock = time.Second
	}
	if l.Dead <= 0 {
		l.Dead = 100_000
	}
	if l.Now == nil {
		l.Now = time.Now
	}
}

// indexes without which a statement reads whole tables, or an id could be there twice.
var indexes = []string{
	"messaging_outbox_pkey", "ix_messaging_outbox_claimable", "ix_messaging_outbox_deferred", "ix_messaging_outbox_waiting",
	"ix_messaging_outbox_parked", "ix_messaging_outbox_skipped", "messaging_outbox_lane_pkey", "messaging_inbox_pkey",
	"ix_messaging_inbox_expiry",
}

// Diagnose looks for what makes an outbox slow or unsafe. It reads catalogs and statistics alone. No finding is an error.
// What other users' sessions do is seen with the right of pg_read_all_stats only.
func (s *Store) Diagnose(ctx context.Context, l Limits) ([]Finding, error) {
	l.setDefaults()
	findings := []Finding{}
	for _, look := range []func(context.Context, *outboxdb.Queries, Limits) ([]Finding, error){
		oldSnapshots, inactiveSlots, badIndexes, vacuum, clocks, rights,
	} {
		var found []Finding
		err := s.do(ctx, "diagnose", func(ctx context.Context, q *outboxdb.Queries) (err error) {
			found, err = look(ctx, q, l)
			return err
		})
		if err != nil {
			return findings, err
		}
		findings = append(findings, found...)
	}
	return findings, nil
}

func oldSnapshots(ctx context.Context, q *outboxdb.Queries, l Limits) (found []Finding, err error) {
	rows, err := q.OldSnapshots(ctx, l.Snapshot)
	for _, r := range rows {
		found = append(found, Finding{
			Code:     FindingOldSnapshot,
			Evidence: fmt.Sprintf("%s (%s) has been open for %s", r.Kind, r.Holder, seconds(r.Seconds)),
			Fix:      "end that transaction: until then VACUUM removes no dead row, and claims and retention slow down; set idle_in_transaction_session_timeout for its user",
		})
	}
	return found, err
}

func inactiveSlots(ctx context.Context, q *outboxdb.Queries, _ Limits) (found []Finding, err error) {
	rows, err := q.IdleSlots(ctx)
	for _, r := range rows {
		found = append(found, Finding{
			Code:     FindingInactiveSlot,
			Evidence: fmt.Sprintf("replication slot %s has no reader and keeps %d bytes of the log", r.Name, r.KeptBytes),
			Fix:      "start its reader or drop it (pg_drop_replication_slot): it fills the disk; max_slot_wal_keep_size bounds that",
		})
	}
	return found, err
}

func badIndexes(ctx context.Context, q *outboxdb.Queries, _ Limits) (found []Finding, err error) {
	rows, err := q.BadIndexes(ctx, indexes)
	for _, r := range rows {
		f := Finding{Code: FindingIndexInvalid, Evidence: "index " + r.Name + " is not valid", Fix: "reindex index concurrently " + r.Name}
		if r.Missing {
			f = Finding{Code: FindingIndexMissing, Evidence: "index " + r.Name + " is not there", Fix: "make it again as 'relay migrate print-sql' shows it, with create index concurrently"}
		}
		found = append(found, f)
	}
	return found, err
}

func vacuum(ctx context.Context, q *outboxdb.Queries, l Limits) (found []Finding, err error) {
	rows, err := q.VacuumState(ctx)
	for _, r := range rows {
		if r.Off {
			found = append(found, Finding{
				Code: FindingAutovacuumOff, Evidence: "autovacuum is off for " + r.Relation,
				Fix: "switch it on, for the server and the table (alter table … reset (autovacuum_enabled))",
			})
		}
		if r.Dead >= l.Dead && r.Dead > r.Live/5 {
			since := "never"
			if r.SecondsSince >= 0 {
				since = seconds(r.SecondsSince) + " ago"
			}
			found = append(found, Finding{
				Code:     FindingAutovacuumBehind,
				Evidence: fmt.Sprintf("%s has %d dead rows and %d living ones; vacuumed %s", r.Relation, r.Dead, r.Live, since),
				Fix:      "look for " + FindingOldSnapshot + " and " + FindingInactiveSlot + " first; then give autovacuum more workers or less delay, and run vacuum " + r.Relation + " once",
			})
		}
	}
	return found, err
}

func clocks(ctx context.Context, q *outboxdb.Queries, l Limits) ([]Finding, error) {
	before := l.Now()
	server, err := q.ServerClock(ctx)
	after := l.Now()
	if err != nil {
		return nil, err
	}
	off := max(before.Sub(server), server.Sub(after)) // the true difference is at least this
	if off <= l.Clock {
		return nil, nil
	}
	return []Finding{{
		Code: FindingClockSkew, Evidence: fmt.Sprintf("this host and the database differ by at least %s", off.Round(time.Millisecond)),
		Fix: "synchronise both clocks: leases do not hang on this host's, ids and times of messages do",
	}}, nil
}

func rights(ctx context.Context, q *outboxdb.Queries, _ Limits) (found []Finding, err error) {
	rows, err := q.MissingRights(ctx)
	for _, r := range rows {
		found = append(found, Finding{
			Code: FindingRightsMissing, Evidence: "role " + r.Name + " lacks " + r.Needs, Fix: "run deploy/sql/roles.sql again; it is needed after each migration",
		})
	}
	return found, err
}

func seconds(s float64) string {
	return (time.Duration(s) * time.Second).String()
}
