package outbox

import (
	"context"
	"fmt"
	"strings"

	"github.com/backend-skeleton/relay/internal/outbox/outboxdb"
)

func missingLanes(ctx context.Context, q *outboxdb.Queries, _ Limits) (found []Finding, err error) {
	rows, err := q.MissingLanes(ctx)
	for _, r := range rows {
		found = append(found, Finding{
			Code:     FindingLanesMissing,
			Evidence: fmt.Sprintf("destination %s has %d lanes and not 16: rows of the others are never sent", r.Destination, r.Lanes),
			Fix:      "start a relay whose file names it, or select messaging_outbox_register(array['" + r.Destination + "'])",
		})
	}
	return found, err
}

// oddLanes sums up the lanes of a destination that have the same trouble.
func oddLanes(ctx context.Context, q *outboxdb.Queries, _ Limits) (found []Finding, err error) {
	rows, err := q.OddLanes(ctx)
	for begin := 0; begin < len(rows); {
		end := begin
		var lanes []string
		for end < len(rows) && rows[end].Destination == rows[begin].Destination && rows[end].Why == rows[begin].Why {
			lanes = append(lanes, fmt.Sprint(rows[end].Lane))
			end++
		}
		found = append(found, Finding{
			Code:     FindingLaneOdd,
			Evidence: fmt.Sprintf("destination %s: lane %s %s", rows[begin].Destination, strings.Join(lanes, ", "), rows[begin].Why),
			Fix:      "relays put this right within a lease; look again after that time. If it stays, restart the relay that serves the destination, and never edit messaging_outbox_lane by hand",
		})
		begin = end
	}
	return found, err
}

func unserved(ctx context.Context, q *outboxdb.Queries, _ Limits) (found []Finding, err error) {
	rows, err := q.UnservedWork(ctx)
	for _, destination := range rows {
		found = append(found, Finding{
			Code: FindingUnserved, Evidence: "rows wait for destination " + destination + ", and no running relay serves it",
			Fix: "start a relay whose relay.serve matches it",
		})
	}
	return found, err
}
