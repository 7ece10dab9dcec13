package observe

import (
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/backend-skeleton/relay/messaging"
)

// DefaultLogInterval is how long further events of one kind are only counted
// after a line was written.
const DefaultLogInterval = 5 * time.Second

// unknown stands for every name that the configuration does not hold.
const unknown = "unknown"

// Config of an [Observer].
type Config struct {
	// Registry takes the metrics. Nil means a registry of its own, which also shows
	// the Go runtime and the process.
	Registry *prometheus.Registry
	// Logger is nil for no log.
	Logger *slog.Logger
	// Destinations maps each destination of the configuration to its broker's name.
	// Other names become the label value "unknown".
	Destinations map[messaging.DestinationName]string
	// Version of the program, for relay_build_info.
	Version string
	// LogInterval is [DefaultLogInterval] unless set.
	LogInterval time.Duration
}

// Observer counts and logs. It is safe for concurrent use, and no call of it
// waits for anything but the log handler.
type Observer struct {
	registry     *prometheus.Registry
	metrics      *metrics
	log          *limiter
	destinations map[messaging.DestinationName]*destination
	brokers      map[string]*broker
	other        *destination
	otherBroker  *broker
}

// New registers the metrics. It fails only when the registry holds other metrics
// of these names already.
func New(c Config) (*Observer, error) {
	if c.Registry == nil {
		c.Registry = prometheus.NewRegistry()
		c.Registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	}
	if c.LogInterval == 0 {
		c.LogInterval = DefaultLogInterval
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	m := newMetrics()
	for _, collector := range m.all() {
		if err := c.Registry.Register(collector); err != nil {
			return nil, err
		}
	}
	m.buildInfo.WithLabelValues(c.Version).Set(1)
	for _, table := range []string{"outbox", "archive"} {
		m.retention.WithLabelValues(table)
	}
	o := &Observer{
		registry: c.Registry, metrics: m, log: newLimiter(c.Logger, c.LogInterval),
		destinations: make(map[messaging.DestinationName]*destination, len(c.Destinations)),
		brokers:      make(map[string]*broker),
		other:        m.destination(unknown, unknown),
		otherBroker:  m.broker(unknown),
	}
	for name, brokerName := range c.Destinations {
		if o.brokers[brokerName] == nil {
			o.brokers[brokerName] = m.broker(brokerName)
			m.setBreaker(brokerName, "", BreakerClosed)
			m.slowStart.WithLabelValues(brokerName, "")
		}
		o.destinations[name] = m.destination(string(name), brokerName)
		m.setBreaker(brokerName, string(name), BreakerClosed)
		m.slowStart.WithLabelValues(brokerName, string(name))
	}
	return o, nil
}

// Registry is where the metrics are.
func (o *Observer) Registry() *prometheus.Registry { return o.registry }
