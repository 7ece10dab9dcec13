package observe

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/backend-skeleton/relay/messaging"
)

// TableRows is what the outbox holds for one destination.
type TableRows struct {
	Destination messaging.DestinationName
	// Rows by status, Lanes by status.
	Rows, Lanes map[string]int64
	// Oldest is the age of the oldest row that waits to be published, 0 for none.
	Oldest time.Duration
}

// CollectTable makes the gauges over the table, read whenever the metrics are.
// read must be cheap and is given at most timeout. While it fails the gauges are
// absent, because an old number would hide the failure.
func (o *Observer) CollectTable(timeout time.Duration, read func(context.Context) ([]TableRows, error)) error {
	return o.registry.Register(&table{
		o: o, read: read, timeout: timeout,
		rows:   prometheus.NewDesc("relay_outbox_rows", "Rows in the outbox.", []string{"destination", "status"}, nil),
		oldest: prometheus.NewDesc("relay_outbox_oldest_age_seconds", "Age of the oldest row that waits to be published.", []string{"destination"}, nil),
		lanes:  prometheus.NewDesc("relay_lanes", "Lanes of the outbox.", []string{"destination", "status"}, nil),
	})
}

type table struct {
	o                   *Observer
	read                func(context.Context) ([]TableRows, error)
	timeout             time.Duration
	rows, oldest, lanes *prometheus.Desc
}

func (t *table) Describe(ch chan<- *prometheus.Desc) {
	ch <- t.rows
	ch <- t.oldest
	ch <- t.lanes
}

// Collect sums up what the label "unknown" stands for, since a series may exist
// once only.
func (t *table) Collect(ch chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), t.timeout)
	defer cancel()
	all, err := t.read(ctx)
	if err != nil {
		t.o.Trouble("read the outbox for its metrics", err)
		return
	}
	type series struct{ destination, status string }
	rows, lanes, oldest := map[series]int64{}, map[series]int64{}, map[string]time.Duration{}
	for _, d := range all {
		name := t.o.destination(d.Destination).name
		oldest[name] = max(oldest[name], d.Oldest)
		for status, n := range d.Rows {
			rows[series{name, status}] += n
		}
		for status, n := range d.Lanes {
			lanes[series{name, status}] += n
		}
	}
	for s, n := range rows {
		ch <- prometheus.MustNewConstMetric(t.rows, prometheus.GaugeValue, float64(n), s.destination, s.status)
	}
	for s, n := range lanes {
		ch <- prometheus.MustNewConstMetric(t.lanes, prometheus.GaugeValue, float64(n), s.destination, s.status)
	}
	for name, age := range oldest {
		ch <- prometheus.MustNewConstMetric(t.oldest, prometheus.GaugeValue, age.Seconds(), name)
	}
}
