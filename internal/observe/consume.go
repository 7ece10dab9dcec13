package observe

import (
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/backend-skeleton/relay/messaging"
)

type consumeMetrics struct {
	deliveries, messages, settlements, retries, handovers *prometheus.CounterVec
	handler, settlement                                   *prometheus.HistogramVec
}

func newConsumeMetrics() consumeMetrics {
	buckets := []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60}
	histogram := func(name, help string, labels ...string) *prometheus.HistogramVec {
		return prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}, labels)
	}
	return consumeMetrics{
		deliveries:  counters("messaging_consume_deliveries_total", "Deliveries by the broker, a message may need several.", "consumer", "status"),
		messages:    counters("messaging_consume_messages_total", "Deliveries by what became of the message.", "consumer", "outcome", "type"),
		settlements: counters("messaging_settlements_total", "Settlements by what is known of them.", "consumer", "verb", "outcome"),
		retries:     counters("messaging_retries_total", "Further attempts that were decided, by how they are waited for.", "consumer", "stage", "category"),
		handovers:   counters("messaging_handovers_total", "Publishes to retry stages, dead-letter queues and parking places.", "consumer", "status", "reason"),
		handler:     histogram("messaging_handler_seconds", "How long handlers ran.", "consumer", "outcome"),
		settlement:  histogram("messaging_settlement_seconds", "From a settlement until its answer.", "consumer", "verb"),
	}
}

func (m *consumeMetrics) all() []prometheus.Collector {
	return []prometheus.Collector{m.deliveries, m.messages, m.settlements, m.retries, m.handovers, m.handler, m.settlement}
}

// Delivered counts a delivery.
func (o *Observer) Delivered(c messaging.ConsumerName, redelivered bool) {
	status := "FIRST"
	if redelivered {
		status = "REDELIVERED"
	}
	o.metrics.consume.deliveries.WithLabelValues(string(c), status).Inc()
}

// Handled takes the end of a handler.
func (o *Observer) Handled(c messaging.ConsumerName, outcome string, took time.Duration) {
	o.metrics.consume.handler.WithLabelValues(string(c), outcome).Observe(took.Seconds())
}

// Consumed counts what became of a message. t is a type of the catalogue; the empty one is "unknown".
func (o *Observer) Consumed(c messaging.ConsumerName, t messaging.MessageType, outcome string) {
	if t == "" {
		t = unknown
	}
	o.metrics.consume.messages.WithLabelValues(string(c), outcome, string(t)).Inc()
}

// Retried counts and logs a further attempt.
func (o *Observer) Retried(c messaging.ConsumerName, m messaging.Mode, f messaging.Failure) {
	o.metrics.consume.retries.WithLabelValues(string(c), m.String(), f.Category.String()).Inc()
	o.log.add(line{level: slog.LevelWarn, message: "tried again", consumer: string(c), stage: m.String(), category: f.Category.String(), code: codeOf(f)}, 1)
}

// HandedOver counts and logs a publish to a retry stage, dead-letter queue or parking place.
func (o *Observer) HandedOver(c messaging.ConsumerName, to messaging.DestinationName, outcome string, status messaging.Completion, f messaging.Failure) {
	status = known(status)
	o.metrics.consume.handovers.WithLabelValues(string(c), status.String(), f.Category.String()).Inc()
	l := line{
		level: slog.LevelError, message: "handed over", consumer: string(c), destination: string(to), outcome: status.String(),
		category: f.Category.String(), code: codeOf(f),
	}
	if outcome == "MOVED" {
		l.level = slog.LevelWarn
	}
	if status != messaging.Confirmed {
		l.message = "not handed over: the source stays unsettled, and it is repeated"
	}
	o.log.add(l, 1)
}

// Settled takes the end of a settlement.
func (o *Observer) Settled(c messaging.ConsumerName, verb string, r messaging.SettlementResult, took time.Duration) {
	o.metrics.consume.settlements.WithLabelValues(string(c), verb, r.Status.String()).Inc()
	o.metrics.consume.settlement.WithLabelValues(string(c), verb).Observe(took.Seconds())
	if r.Status != messaging.Settled {
		l := line{level: slog.LevelWarn, message: "settlement unknown: the message may come again", consumer: string(c), outcome: r.Status.String()}
		if r.Failure != nil {
			l.category, l.code = r.Failure.Category.String(), r.Failure.Code
		}
		o.log.add(l, 1)
	}
}

// Paused logs the begin and the end of a reason to pause. An application's own reasons are words of its program.
func (o *Observer) Paused(c messaging.ConsumerName, reason string, paused bool) {
	if reason == "backpressure" { // the ordinary course of work
		return
	}
	text := "consumer goes on"
	if paused {
		text = "consumer pauses"
	}
	o.log.add(line{level: slog.LevelWarn, message: text, consumer: string(c), stage: reason}, 1)
}

// codeOf keeps a handler's own codes out of the log where they are no codes.
func codeOf(f messaging.Failure) string {
	if len(f.Code) > 100 {
		return ""
	}
	for _, r := range f.Code {
		if r != '_' && (r < 'A' || r > 'Z') && (r < '0' || r > '9') {
			return ""
		}
	}
	return f.Code
}

// ConsumerState is what a consumer is doing.
type ConsumerState struct {
	Consumer       messaging.ConsumerName
	Running, Stuck int
	// Paused are the reasons that hold it or a unit of it.
	Paused []string
}

// CollectConsumers shows the state of consumers; read is asked at every scrape.
func (o *Observer) CollectConsumers(read func() []ConsumerState) error {
	return o.registry.Register(&consumerCollector{read: read})
}

type consumerCollector struct{ read func() []ConsumerState }

var (
	handlersRunning = prometheus.NewDesc("messaging_handlers_running", "Handlers that run.", []string{"consumer"}, nil)
	handlersStuck   = prometheus.NewDesc("messaging_handlers_stuck", "Handlers that run a drain time beyond their timeout.", []string{"consumer"}, nil)
	consumerPaused  = prometheus.NewDesc("messaging_consumer_paused", "1 for each reason that holds the consumer or a unit of it.", []string{"consumer", "reason"}, nil)
)

func (c *consumerCollector) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{handlersRunning, handlersStuck, consumerPaused} {
		to <- d
	}
}

func (c *consumerCollector) Collect(to chan<- prometheus.Metric) {
	for _, s := range c.read() {
		gauge := func(d *prometheus.Desc, v float64, labels ...string) {
			to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, append([]string{string(s.Consumer)}, labels...)...)
		}
		gauge(handlersRunning, float64(s.Running))
		gauge(handlersStuck, float64(s.Stuck))
		for _, reason := range s.Paused {
			gauge(consumerPaused, 1, reason)
		}
	}
}
