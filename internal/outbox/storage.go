package outbox

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/backend-skeleton/relay/internal/outbox/outboxdb"
)

// Storage is what the tables take, who keeps dead rows in them, and how far the retention is behind.
type Storage struct {
	// AsOf is the moment, by the database clock.
	AsOf   time.Time
	Tables []TableStorage
	// Snapshots that keep VACUUM from removing dead rows, the one that holds back most first.
	Snapshots []Snapshot
	// SessionsVisible tells whether this user sees the sessions of others: without the rights of pg_read_all_stats Snapshots
	// is not complete.
	SessionsVisible bool
	Backlog         Backlog
}

// TableStorage is one table with all that belongs to it, its partitions included. Rows are those of the statistics.
type TableStorage struct {
	Name                   string
	Partitions             int
	TableBytes, IndexBytes int64
	Live, Dead             int64
	// Zero for never, or not since the statistics were reset.
	LastVacuum, LastAutovacuum time.Time
}

// The kinds of snapshot holders; programs may rely on them.
const (
	SnapshotSession  = "SESSION"
	SnapshotPrepared = "PREPARED_TRANSACTION"
	SnapshotSlot     = "REPLICATION_SLOT"
	SnapshotStandby  = "STANDBY"
	mostSnapshots    = 10
	backlogRows      = 10_000
)

// SnapshotKinds are all of them.
func SnapshotKinds() []string {
	return []string{SnapshotSession, SnapshotPrepared, SnapshotSlot, SnapshotStandby}
}

// Snapshot is somebody who may still want to see dead rows.
type Snapshot struct {
	Kind string
	// Holder names it to a person: process and application, transaction, slot or standby.
	Holder string
	// Age of the transaction; negative where nobody knows it, as of a slot.
	Age time.Duration
	// Transactions that began since, in the whole cluster.
	Transactions int64
}

// Backlog of the retention.
type Backlog struct {
	// Rows whose retention time is over, among the next 10,000 that the retention will look at. More: there are more.
	Rows int64
	More bool
	// Overdue is for how long the oldest of them has been due.
	Overdue time.Duration
}

// tables of the product that grow.
var tables = []string{"messaging_outbox", "messaging_outbox_lane", "messaging_outbox_archive", "messaging_inbox"}

// Storage reads catalogs and statistics, and at most 10,000 rows for the backlog of a retention of keep; none for a keep of
// zero.
func (s *Store) Storage(ctx context.Context, keep time.Duration) (Storage, error) {
	var out Storage
	err := s.do(ctx, "look at the storage", func(ctx context.Context, q *outboxdb.Queries) error {
		out = Storage{}
		for _, read := range []func(context.Context, *outboxdb.Queries) error{out.readTables, out.readSnapshots} {
			if err := read(ctx, q); err != nil {
				return err
			}
		}
		return out.readBacklog(ctx, q, keep)
	})
	return out, err
}

func (st *Storage) readTables(ctx context.Context, q *outboxdb.Queries) error {
	rows, err := q.TableStorage(ctx, tables)
	for _, r := range rows {
		t := TableStorage{
			Name: r.Relation, Partitions: int(r.Partitions), TableBytes: r.TableBytes, IndexBytes: r.IndexBytes, Live: r.Live, Dead: r.Dead,
			LastVacuum: r.LastVacuum, LastAutovacuum: r.LastAutovacuum,
		}
		st.Tables = append(st.Tables, t)
	}
	slices.SortFunc(st.Tables, func(a, b TableStorage) int { return strings.Compare(a.Name, b.Name) })
	return err
}

func (st *Storage) readSnapshots(ctx context.Context, q *outboxdb.Queries) error {
	holders, err := q.SnapshotHolders(ctx, mostSnapshots)
	if err != nil {
		return err
	}
	for _, h := range holders {
		st.Snapshots = append(st.Snapshots, Snapshot{
			Kind: h.Kind, Holder: h.Holder, Age: time.Duration(h.Seconds * float64(time.Second)), Transactions: h.Transactions,
		})
	}
	st.SessionsVisible, err = q.SeesSessions(ctx)
	return err
}

func (st *Storage) readBacklog(ctx context.Context, q *outboxdb.Queries, keep time.Duration) error {
	place, err := q.TaskPlace(ctx, retentionTask)
	if err != nil {
		return err
	}
	st.AsOf = place.Now
	if keep <= 0 {
		return nil
	}
	due := dueIDs(place.Now, keep)[0]
	due.after = later(due.after, task{place: place.Place}.placeID())
	if !due.holdsAny() {
		due.after = uuid.Nil
	}
	b, err := q.RetentionBacklog(ctx, outboxdb.RetentionBacklogParams{Keep: keep, After: due.after, Before: due.before, Most: backlogRows})
	st.Backlog = Backlog{Rows: b.Due, More: b.Seen == backlogRows, Overdue: time.Duration(b.OverdueSeconds * float64(time.Second))}
	return err
}
