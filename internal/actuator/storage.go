package actuator

import (
	"context"
	"net/http"
	"time"

	"github.com/backend-skeleton/relay/internal/observe"
)

// StorageReader reads what the tables take. It is called by one request at a
// time, with a deadline, and its answer serves every request of the next ten
// seconds.
type StorageReader interface {
	Storage(ctx context.Context) (Storage, error)
}

// Storage is what the tables take, who keeps dead rows in them, and how far the
// retention is behind.
type Storage struct {
	// AsOf is the moment, by the database clock.
	AsOf      time.Time
	Tables    []TableStorage
	Snapshots []Snapshot
	// SessionsVisible is false where the relay's user does not see the sessions of
	// others: Snapshots is not complete then.
	SessionsVisible bool
	// Keep is the retention time. BacklogRows are over it, at least so many where
	// BacklogMore is set; the oldest has been for Overdue.
	Keep, Overdue time.Duration
	BacklogRows   int64
	BacklogMore   bool
}

// TableStorage is one table with its partitions.
type TableStorage struct {
	Name                       string
	Partitions                 int
	TableBytes, IndexBytes     int64
	LiveRows, DeadRows         int64
	LastVacuum, LastAutovacuum time.Time
}

// Snapshot keeps dead rows in the tables.
type Snapshot struct {
	// Kind is one of SESSION, PREPARED_TRANSACTION, REPLICATION_SLOT, STANDBY.
	Kind, Holder string
	// Age is negative where nobody knows it.
	Age          time.Duration
	Transactions int64
}

type storageBody struct {
	AsOf            string         `json:"asOf"`
	Tables          []tableBody    `json:"tables"`
	Snapshots       []snapshotBody `json:"snapshots"`
	SessionsVisible bool           `json:"sessionsVisible"`
	Retention       retentionBody  `json:"retention"`
}

type tableBody struct {
	Name           string `json:"name"`
	Partitions     int    `json:"partitions"`
	TableBytes     int64  `json:"tableBytes"`
	IndexBytes     int64  `json:"indexBytes"`
	LiveRows       int64  `json:"liveRows"`
	DeadRows       int64  `json:"deadRows"`
	LastVacuum     string `json:"lastVacuum"`
	LastAutovacuum string `json:"lastAutovacuum"`
}

type snapshotBody struct {
	Kind         string   `json:"kind"`
	Holder       string   `json:"holder"`
	AgeSeconds   *float64 `json:"ageSeconds"` // null where nobody knows it
	Transactions int64    `json:"transactions"`
}

type retentionBody struct {
	KeepSeconds    float64 `json:"keepSeconds"`
	BacklogRows    int64   `json:"backlogRows"`
	BacklogMore    bool    `json:"backlogMore"`
	OverdueSeconds float64 `json:"overdueSeconds"`
}

func (h *handler) storage(w http.ResponseWriter, r *http.Request) {
	s, err := h.store.get(r.Context())
	if err != nil {
		h.statsFailed(err)
		writeJSON(w, http.StatusServiceUnavailable, errorBody{Error: "the storage cannot be read"})
		return
	}
	body := storageBody{
		AsOf: timeText(s.AsOf), Tables: make([]tableBody, 0, len(s.Tables)), Snapshots: make([]snapshotBody, 0, len(s.Snapshots)),
		SessionsVisible: s.SessionsVisible,
		Retention: retentionBody{
			KeepSeconds: seconds(s.Keep), BacklogRows: s.BacklogRows, BacklogMore: s.BacklogMore, OverdueSeconds: seconds(s.Overdue),
		},
	}
	for _, t := range s.Tables {
		body.Tables = append(body.Tables, tableBody{
			Name: t.Name, Partitions: t.Partitions, TableBytes: t.TableBytes, IndexBytes: t.IndexBytes, LiveRows: t.LiveRows,
			DeadRows: t.DeadRows, LastVacuum: timeText(t.LastVacuum), LastAutovacuum: timeText(t.LastAutovacuum),
		})
	}
	for _, snapshot := range s.Snapshots {
		b := snapshotBody{Kind: snapshot.Kind, Holder: snapshot.Holder, Transactions: snapshot.Transactions}
		if snapshot.Age >= 0 {
			age := seconds(snapshot.Age)
			b.AgeSeconds = &age
		}
		body.Snapshots = append(body.Snapshots, b)
	}
	writeJSON(w, http.StatusOK, body)
}

// gauges are the numbers of the page for the metrics.
func (h *handler) gauges(ctx context.Context) (observe.Storage, error) {
	s, err := h.store.get(ctx)
	if err != nil {
		return observe.Storage{}, err
	}
	out := observe.Storage{AsOf: s.AsOf, BacklogRows: s.BacklogRows, Overdue: s.Overdue}
	for _, t := range s.Tables {
		last := t.LastVacuum
		if t.LastAutovacuum.After(last) {
			last = t.LastAutovacuum
		}
		out.Tables = append(out.Tables, observe.Table{
			Name: t.Name, TableBytes: t.TableBytes, IndexBytes: t.IndexBytes, Live: t.LiveRows, Dead: t.DeadRows, LastVacuum: last,
		})
	}
	for _, snapshot := range s.Snapshots {
		out.Snapshots = append(out.Snapshots, observe.Snapshot{Kind: snapshot.Kind, Age: snapshot.Age, Transactions: snapshot.Transactions})
	}
	return out, nil
}
