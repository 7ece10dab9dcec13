package outbox

import (
	"context"
	"fmt"
	"time"

	"github.com/backend-skeleton/relay/internal/outbox/outboxdb"
)

// whatToDo about whoever keeps a snapshot.
var whatToDo = map[string]string{
	SnapshotSession:  "end that transaction: until then VACUUM removes no dead row, and claims and retention slow down; set idle_in_transaction_session_timeout for its user",
	SnapshotPrepared: "commit or roll back that prepared transaction (commit prepared, rollback prepared): until then VACUUM removes no dead row",
	SnapshotSlot:     "let the slot's reader catch up, switch its hot_standby_feedback off, or drop the slot (pg_drop_replication_slot): until then VACUUM removes no dead row",
	SnapshotStandby:  "end the long query on that standby or switch hot_standby_feedback off there: until then VACUUM removes no dead row",
}

func oldSnapshots(ctx context.Context, q *outboxdb.Queries, l Limits) (found []Finding, err error) {
	rows, err := q.SnapshotHolders(ctx, mostSnapshots)
	for _, r := range rows {
		age := time.Duration(r.Seconds * float64(time.Second))
		if age < l.Snapshot && (r.Seconds >= 0 || r.Transactions < l.Transactions) {
			continue
		}
		since := "for " + seconds(r.Seconds)
		if r.Seconds < 0 {
			since = fmt.Sprintf("for %d transactions", r.Transactions)
		}
		found = append(found, Finding{
			Code: FindingOldSnapshot, Evidence: fmt.Sprintf("%s (%s) keeps dead rows %s", r.Kind, r.Holder, since), Fix: whatToDo[r.Kind],
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

func vacuum(ctx context.Context, q *outboxdb.Queries, l Limits) (found []Finding, err error) {
	rows, err := q.VacuumState(ctx, tables)
	for _, r := range rows {
		if r.Off {
			found = append(found, Finding{
				Code: FindingAutovacuumOff, Evidence: "autovacuum is off for " + r.Relation,
				Fix: "switch it on, for the server (autovacuum, track_counts) and the table: alter table " + r.Relation + " reset (autovacuum_enabled)",
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

func retentionBehind(ctx context.Context, q *outboxdb.Queries, l Limits) ([]Finding, error) {
	var s Storage
	if err := s.readBacklog(ctx, q, l.Keep); err != nil || s.Backlog.Overdue < l.Overdue {
		return nil, err
	}
	return []Finding{{
		Code:     FindingRetentionBehind,
		Evidence: fmt.Sprintf("published rows are still there %s after their retention time; %d of the next %d to be looked at", s.Backlog.Overdue.Round(time.Second), s.Backlog.Rows, backlogRows),
		Fix:      "look for 'retention' in the log of the relays; while one runs and does not keep up, raise relay.retention.share",
	}}, nil
}

func seconds(s float64) string {
	return (time.Duration(s) * time.Second).String()
}
