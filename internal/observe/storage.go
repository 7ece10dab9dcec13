package observe

import (
	"context"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Storage is what the tables take and who keeps dead rows in them.
type Storage struct {
	AsOf      time.Time
	Tables    []Table
	Snapshots []Snapshot
	// BacklogRows are over their retention time, the oldest for Overdue.
	BacklogRows int64
	Overdue     time.Duration
}

// Table is one table of the product.
type Table struct {
	Name                   string
	TableBytes, IndexBytes int64
	Live, Dead             int64
	// LastVacuum by hand or by the server; zero for never.
	LastVacuum time.Time
}

// Snapshot keeps dead rows in the tables.
type Snapshot struct {
	Kind string
	// Age is negative where nobody knows it.
	Age          time.Duration
	Transactions int64
}

// snapshotKinds have a series each at all times, so that an alarm sees them come and go.
var snapshotKinds = []string{"SESSION", "PREPARED_TRANSACTION", "REPLICATION_SLOT", "STANDBY"}

// CollectStorage makes the gauges of the storage, under the rules of [Observer.CollectTable].
func (o *Observer) CollectStorage(timeout time.Duration, read func(context.Context) (Storage, error)) error {
	describe := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, labels, nil)
	}
	return o.registry.Register(&storage{
		o: o, read: read, timeout: timeout,
		size:         describe("relay_table_size_bytes", "Room that a table takes, without its indexes.", "table"),
		indexes:      describe("relay_table_index_size_bytes", "Room that the indexes of a table take.", "table"),
		live:         describe("relay_table_live_rows", "Living rows, as the statistics know them.", "table"),
		dead:         describe("relay_table_dead_rows", "Dead rows that VACUUM has not removed yet, as the statistics know them.", "table"),
		vacuum:       describe("relay_table_vacuum_age_seconds", "Since the last VACUUM of a table, by hand or by the server; absent before the first.", "table"),
		snapshot:     describe("relay_snapshot_age_seconds", "Age of the oldest transaction that keeps dead rows, 0 for none, by kind of its holder.", "reason"),
		transactions: describe("relay_snapshot_transactions", "Transactions since the oldest snapshot that keeps dead rows, 0 for none, by kind of its holder.", "reason"),
		backlog:      describe("relay_retention_backlog_rows", "Rows over their retention time among the next 10000 that the retention looks at."),
		overdue:      describe("relay_retention_overdue_seconds", "For how long the oldest of them has been over its retention time."),
	})
}

type storage struct {
	o                                        *Observer
	read                                     func(context.Context) (Storage, error)
	timeout                                  time.Duration
	size, indexes, live, dead, vacuum        *prometheus.Desc
	snapshot, transactions, backlog, overdue *prometheus.Desc
}

func (s *storage) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{s.size, s.indexes, s.live, s.dead, s.vacuum, s.snapshot, s.transactions, s.backlog, s.overdue} {
		ch <- d
	}
}

func (s *storage) Collect(ch chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), s.timeout)
	defer cancel()
	now, err := s.read(ctx)
	if err != nil {
		s.o.Trouble("read the storage for its metrics", err)
		return
	}
	set := func(d *prometheus.Desc, value float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
	}
	for _, t := range now.Tables {
		name := tableLabel(t.Name)
		set(s.size, float64(t.TableBytes), name)
		set(s.indexes, float64(t.IndexBytes), name)
		set(s.live, float64(t.Live), name)
		set(s.dead, float64(t.Dead), name)
		if !t.LastVacuum.IsZero() {
			set(s.vacuum, now.AsOf.Sub(t.LastVacuum).Seconds(), name)
		}
	}
	for _, kind := range snapshotKinds {
		var oldest, most float64
		for _, h := range now.Snapshots {
			if h.Kind == kind {
				oldest, most = max(oldest, h.Age.Seconds()), max(most, float64(h.Transactions))
			}
		}
		set(s.snapshot, oldest, kind)
		set(s.transactions, most, kind)
	}
	set(s.backlog, float64(now.BacklogRows))
	set(s.overdue, now.Overdue.Seconds())
}

// tableLabel is the short name of a table: outbox, lane, archive, inbox.
func tableLabel(name string) string {
	name = strings.TrimPrefix(name, "messaging_")
	if short, ok := strings.CutPrefix(name, "outbox_"); ok {
		return short
	}
	return name
}
