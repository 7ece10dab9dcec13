package observe

import "github.com/prometheus/client_golang/prometheus"

// metrics are all families. Names and labels are read by dashboards and alarms:
// they are never changed.
type metrics struct {
	publishMessages    *prometheus.CounterVec
	publishAttempts    *prometheus.CounterVec
	publishConfirm     *prometheus.HistogramVec
	publishInFlight    *prometheus.GaugeVec
	publishBuffered    *prometheus.GaugeVec
	publishLateAnswers *prometheus.CounterVec

	outcomes      *prometheus.CounterVec
	lostLease     prometheus.Counter
	lateConfirmed *prometheus.CounterVec
	lateCommit    *prometheus.CounterVec
	overtook      *prometheus.CounterVec
	breaker       *prometheus.GaugeVec
	slowStart     *prometheus.GaugeVec
	retention     *prometheus.CounterVec
	buildInfo     *prometheus.GaugeVec

	consume consumeMetrics
}

func newMetrics() *metrics {
	return &metrics{
		consume: newConsumeMetrics(),

		publishMessages: counters("messaging_publish_messages_total", "Messages by their final outcome: confirmed, or given up.", "destination", "outcome"),
		publishAttempts: counters("messaging_publish_attempts_total", "Publishes handed to a broker, by what it proved; a message may need several.", "destination", "broker", "outcome"),
		publishConfirm: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "messaging_publish_confirm_seconds", Help: "From handing a message to the broker until it was confirmed.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60},
		}, []string{"destination"}),
		publishInFlight:    gauges("messaging_publish_in_flight", "Messages handed to a broker and not answered yet.", "broker"),
		publishBuffered:    gauges("messaging_publish_buffered_bytes", "Payload bytes of the messages in flight.", "broker"),
		publishLateAnswers: counters("messaging_publish_late_answers_total", "Answers that came after the verdict.", "broker", "outcome"),

		outcomes:      counters("relay_outbox_outcomes_total", "Outcomes of rows, by what became of the row.", "destination", "outcome", "category"),
		lostLease:     prometheus.NewCounter(prometheus.CounterOpts{Name: "relay_lost_lease_total", Help: "Outcomes that changed nothing because another relay owned the lane."}),
		lateConfirmed: counters("relay_late_confirmed_total", "Rows that a late confirmation made published.", "destination"),
		lateCommit:    counters("relay_late_commit_total", "Rows that were committed behind a published row of their key.", "destination"),
		overtook:      counters("relay_overtook_total", "Rows that a broker stored although it refused an earlier one of their key.", "destination"),
		breaker:       gauges("relay_breaker_state", "1 for the state a breaker is in, 0 for the others; without destination it is the broker's own.", "broker", "destination", "state"),
		slowStart:     gauges("relay_slow_start_rows", "Rows that a destination may have open after a breaker closed again, 0 for any number; without destination it is the broker's breaker.", "broker", "destination"),
		retention:     counters("relay_retention_rows_total", "Rows that this relay deleted or moved after their retention time, by the table that they left.", "table"),
		buildInfo:     gauges("relay_build_info", "The version that runs.", "version"),
	}
}

func (m *metrics) all() []prometheus.Collector {
	return append(m.consume.all(),
		m.publishMessages, m.publishAttempts, m.publishConfirm, m.publishInFlight, m.publishBuffered, m.publishLateAnswers,
		m.outcomes, m.lostLease, m.lateConfirmed, m.lateCommit, m.overtook, m.breaker, m.slowStart, m.retention, m.buildInfo,
	)
}

func counters(name, help string, labels ...string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
}

func gauges(name, help string, labels ...string) *prometheus.GaugeVec {
	return prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, labels)
}
