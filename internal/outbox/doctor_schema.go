package outbox

import (
	"context"

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
				Fix: "make it again as 'relay migrate print-sql' shows it, with create index concurrently (on a partitioned table without concurrently)",
			}
		}
		found = append(found, f)
	}
	return found, err
}

func rights(ctx context.Context, q *outboxdb.Queries, l Limits) (found []Finding, err error) {
	const fix = "run deploy/sql/roles.sql again; it is needed after each migration"
	roles, err := q.MissingRights(ctx)
	if err != nil {
		return nil, err
	}
	for _, r := range roles {
		found = append(found, Finding{Code: FindingRightsMissing, Evidence: "role " + r.Name + " lacks " + r.Needs, Fix: fix})
	}
	if !l.AsRelay {
		return found, nil
	}
	own, err := q.OwnMissingRights(ctx)
	for _, r := range own {
		found = append(found, Finding{
			Code: FindingRightsMissing, Evidence: "the relay's user " + r.Name + " lacks " + r.Needs, Fix: fix + "; then grant relay_worker to " + r.Name,
		})
	}
	return found, err
}
