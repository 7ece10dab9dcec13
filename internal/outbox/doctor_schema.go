package outbox

import (
	"context"
	"fmt"

	"github.com/backend-skeleton/relay/internal/outbox/outboxdb"
)

// indexes without which a statement reads whole tables, or an id could be there twice.
var indexes = []string{
	"messaging_outbox_pkey", "ix_messaging_outbox_claimable", "ix_messaging_outbox_deferred", "ix_messaging_outbox_waiting",
	"ix_messaging_outbox_parked", "ix_messaging_outbox_skipped", "messaging_outbox_lane_pkey", "messaging_outbox_archive_pkey",
	"messaging_inbox_pkey", "ix_messaging_inbox_expiry",
}

func badIndexes(ctx context.Context, q *outboxdb.Queries, _ Limits) (found []Finding, err error) {
	rows, err := q.BadIndexes(ctx, indexes)
	for _, r := range rows {
		f := Finding{Code: FindingIndexInvalid, Evidence: "index " + r.Name + " is not valid", Fix: "reindex index concurrently " + r.Name}
		if r.Missing {
			f = Finding{
				Code: FindingIndexMissing, Evidence: "index " + r.Name + " is not there",
				Fix: "make it again as the migrations made it, with create index concurrently (on a partitioned table without concurrently)",
			}
		}
		found = append(found, f)
	}
	return found, err
}

// mostAstray is how many rows outside the ranges are counted.
const mostAstray = 1000

func ranges(ctx context.Context, q *outboxdb.Queries, _ Limits) (found []Finding, err error) {
	state, err := q.RangeState(ctx, mostAstray)
	if err != nil {
		return nil, err
	}
	if !state.Ahead {
		found = append(found, Finding{
			Code: FindingRangesMissing, Evidence: "there is no range for the rows that come next; they go to messaging_outbox_default",
			Fix: "look for 'ranges' in the log of the relays: one of them makes ranges once a minute, by the right of relay_worker",
		})
	}
	if state.Astray > 0 {
		found = append(found, Finding{
			Code: FindingRowsAstray, Evidence: fmt.Sprintf("%d rows (counted up to %d) are in messaging_outbox_default", state.Astray, mostAstray),
			Fix: "correct the clock of the writers whose ids are far from the time, if there are such; the rows are published and removed like all others",
		})
	}
	return found, nil
}

func keptRanges(ctx context.Context, q *outboxdb.Queries, l Limits) (found []Finding, err error) {
	if l.Keep <= 0 {
		return nil, nil
	}
	names, err := q.KeptRanges(ctx, l.Keep+l.Overdue)
	for _, name := range names {
		found = append(found, Finding{
			Code: FindingRangeKept, Evidence: "range " + name + " is past its retention time, and not all of it is published",
			Fix: "redrive or delete its parked rows; until then its published ones are deleted row by row",
		})
	}
	return found, err
}

// needs are the rights without which the programs of a role fail.
var needs = []struct {
	role   string
	rights []string
}{
	{"relay_writer", []string{"insert messaging_outbox", "select messaging_inbox", "insert messaging_inbox"}},
	{relayRole, []string{
		"select messaging_outbox", "update messaging_outbox", "delete messaging_outbox",
		"select messaging_outbox_lane", "insert messaging_outbox_lane", "update messaging_outbox_lane", "delete messaging_outbox_lane",
		"select messaging_outbox_relay", "insert messaging_outbox_relay", "update messaging_outbox_relay", "delete messaging_outbox_relay",
		"select messaging_outbox_task", "insert messaging_outbox_task", "update messaging_outbox_task", "delete messaging_outbox_task",
		"select messaging_outbox_destination", "insert messaging_outbox_destination", "update messaging_outbox_destination",
		"select messaging_outbox_archive", "insert messaging_outbox_archive", "delete messaging_outbox_archive",
		"select messaging_control", "select messaging_inbox", "delete messaging_inbox",
	}},
	{"relay_operator", []string{
		"execute messaging_outbox_operate", "update messaging_outbox", "select messaging_control", "insert messaging_control", "insert messaging_audit",
	}},
	{"relay_reader", []string{"select messaging_outbox_status"}},
}

const relayRole = "relay_worker"

func rights(ctx context.Context, q *outboxdb.Queries, l Limits) (found []Finding, err error) {
	const fix = "run deploy/sql/roles.sql again; it is needed after each migration"
	for _, n := range needs {
		lacking, err := q.MissingRights(ctx, outboxdb.MissingRightsParams{Needs: n.rights, Role: n.role})
		if err != nil {
			return nil, err
		}
		for _, r := range lacking {
			found = append(found, Finding{Code: FindingRightsMissing, Evidence: "role " + r.Name + " lacks " + r.Privileges + " on " + r.Relation, Fix: fix})
		}
		if !l.AsRelay || n.role != relayRole {
			continue
		}
		own, err := q.MissingRights(ctx, outboxdb.MissingRightsParams{Needs: n.rights})
		if err != nil {
			return nil, err
		}
		for _, r := range own {
			found = append(found, Finding{
				Code: FindingRightsMissing, Evidence: "the relay's user " + r.Name + " lacks " + r.Privileges + " on " + r.Relation,
				Fix: fix + "; then grant relay_worker to " + r.Name,
			})
		}
	}
	return found, nil
}
