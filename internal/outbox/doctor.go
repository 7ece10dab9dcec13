package outbox

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/backend-skeleton/relay/internal/outbox/outboxdb"
)

// The codes of findings; programs may rely on them.
const (
	// FindingOldSnapshot: somebody has kept a snapshot for so long that dead rows pile up.
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
	// FindingRetentionBehind: published rows stay much longer than they should.
	FindingRetentionBehind = "RETENTION_BEHIND"
	// FindingClockSkew: the clocks of this host and of the database differ.
	FindingClockSkew = "CLOCK_SKEW"
	// FindingRightsMissing: a role of the product, or the relay's user, lacks its rights.
	FindingRightsMissing = "RIGHTS_MISSING"
	// FindingRangesMissing: a partitioned outbox has no range for the rows that come next.
	FindingRangesMissing = "RANGES_MISSING"
	// FindingRowsAstray: rows of a partitioned outbox are in the DEFAULT partition.
	FindingRowsAstray = "ROWS_OUTSIDE_RANGES"
	// FindingRangeKept: a past range cannot be dropped, because not everything in it is published.
	FindingRangeKept = "RANGE_KEPT"
	// FindingUnserved: rows wait for a destination that no running relay serves.
	FindingUnserved = "DESTINATION_UNSERVED"
	// FindingLaneOdd: a lane has an owner that cannot be right, or an expired one that nobody replaces.
	FindingLaneOdd = "LANE_ODD"
	// FindingLanesMissing: a destination does not have its 16 lanes.
	FindingLanesMissing = "LANES_MISSING"
)

// The codes of what is found outside the store: in its connection, its schema and the relay's file.
const (
	// FindingListenUnheard: a notification that the process sent to itself did not arrive.
	FindingListenUnheard = "LISTEN_UNHEARD"
	// FindingLeaseTooShort: a publish may take longer than the lease that covers it.
	FindingLeaseTooShort = "LEASE_TOO_SHORT"
	// FindingConfiguration: the file breaks another rule.
	FindingConfiguration = "CONFIGURATION_REFUSED"
	// FindingSchemaMissing, FindingSchemaOlder, FindingSchemaNewer: the schema is not the program's.
	FindingSchemaMissing = "SCHEMA_MISSING"
	FindingSchemaOlder   = "SCHEMA_OLDER"
	FindingSchemaNewer   = "SCHEMA_NEWER"
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
	// Transactions is the age of a slot's or standby's snapshot, which have no time; default 1,000,000.
	Transactions int64
	// Clock is the difference of the clocks, beyond what the question itself took; default 1 s.
	Clock time.Duration
	// Dead is the number of dead rows of a table, where they are also more than a fifth of the living; default 100,000.
	Dead int64
	// Keep is the retention time of published rows; 0: it is not known, and nothing is said of the retention.
	Keep time.Duration
	// Overdue is how long a published row may stay beyond it; default 1 day.
	Overdue time.Duration
	// AsRelay asks for the rights of the one who asks, too.
	AsRelay bool
	// Now is the clock of this host; default time.Now.
	Now func() time.Time
}

func (l *Limits) setDefaults() {
	setDefault(&l.Snapshot, DefaultSnapshotAge)
	setDefault(&l.Transactions, 1_000_000)
	setDefault(&l.Clock, time.Second)
	setDefault(&l.Dead, 100_000)
	setDefault(&l.Overdue, 24*time.Hour)
	if l.Now == nil {
		l.Now = time.Now
	}
}

func setDefault[T int64 | time.Duration](field *T, value T) {
	if *field <= 0 {
		*field = value
	}
}

// look is one question of the doctor.
type look func(context.Context, *outboxdb.Queries, Limits) ([]Finding, error)

// Diagnose looks for what makes an outbox slow or unsafe. It reads catalogs, statistics, the fleet's small tables and a
// bounded number of rows. No finding is an error. What other users' sessions do is seen with the right of
// pg_read_all_stats only, and what a missing right hides is left out where the findings name a missing right.
func (s *Store) Diagnose(ctx context.Context, l Limits) ([]Finding, error) {
	l.setDefaults()
	findings := []Finding{}
	for _, look := range []look{
		rights, oldSnapshots, inactiveSlots, vacuum, clocks, badIndexes, ranges, keptRanges, missingLanes, oddLanes, unserved, retentionBehind,
	} {
		var found []Finding
		err := s.do(ctx, "diagnose", func(ctx context.Context, q *outboxdb.Queries) (err error) {
			found, err = look(ctx, q, l)
			return err
		})
		switch {
		case errors.Is(err, ErrDenied) && slices.ContainsFunc(findings, func(f Finding) bool { return f.Code == FindingRightsMissing }):
		case err != nil:
			return findings, err
		}
		findings = append(findings, found...)
	}
	return findings, nil
}
