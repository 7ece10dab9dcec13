package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"
)

// Options say where and how long to measure.
type Options struct {
	// Database is the connection string. A schema is made in it and dropped at the end.
	Database string
	// Kafka are seeds of a cluster; none: a broker in this process that speaks the protocol.
	Kafka []string
	// RabbitMQ is an amqp:// URL and RabbitMQAPI its management URL; empty: left out.
	RabbitMQ, RabbitMQAPI string
	// Settings are the columns of the table.
	Settings []Setting
	// Rows of one drain. Default 60,000.
	Rows int
	// Repeat each drain and take the median. Default 3.
	Repeat int
	// Steady is how long each steady load lasts. Default 6 s.
	Steady time.Duration
	// Full makes the large tables as large as the goals say, instead of in proportion to Rows.
	Full bool
	// Ranges of a day make up the outbox, up to the one of now; 0: it is a plain table.
	Ranges int
	// Only, if not empty, names the parts to run; see [Parts].
	Only []string
	// Victim starts a process that calls [Victim] and can be killed, and gives what kills it and waits for its end. Nil
	// leaves the take-over out.
	Victim func(ctx context.Context, schema string, s Setting) (kill func() error, err error)
	// Progress is told what is being measured.
	Progress io.Writer
}

// Setting is one column: how a relay is configured.
type Setting struct {
	Batch    int // most rows of one lane per claim
	InFlight int // most open rows of a broker
}

// String is the column's title.
func (s Setting) String() string { return fmt.Sprintf("batch %d, in-flight %d", s.Batch, s.InFlight) }

// DefaultSettings are the relay's defaults, and the large batches that the goals are about.
func DefaultSettings() []Setting {
	return []Setting{{Batch: 100, InFlight: 1000}, {Batch: 1000, InFlight: 1000}}
}

func (o *Options) setDefaults() {
	if len(o.Settings) == 0 {
		o.Settings = DefaultSettings()
	}
	if o.Rows <= 0 {
		o.Rows = 60_000
	}
	if o.Repeat <= 0 {
		o.Repeat = 3
	}
	if o.Steady <= 0 {
		o.Steady = 6 * time.Second
	}
	if o.Progress == nil {
		o.Progress = io.Discard
	}
}

// part is one thing to measure.
type part struct {
	name string
	run  func(*bench, context.Context) error
}

// parts in the order in which they run: what follows a floor is compared with it.
var parts = []part{
	{"floor", (*bench).floor},
	{"drain", (*bench).drain},
	{"delay", (*bench).drainDelayed},
	{"kafka", (*bench).drainKafka},
	{"rabbitmq", (*bench).drainRabbit},
	{"keys", (*bench).keyed},
	{"fleet", (*bench).fleet},
	{"busy", (*bench).busy},
	{"published", (*bench).published},
	{"blocked", (*bench).blocked},
	{"dead", (*bench).dead},
	{"memory", (*bench).memory},
	{"insert", (*bench).insert},
	{"latency", (*bench).latency},
	{"many", (*bench).many},
	{"takeover", (*bench).takeOver},
}

// Parts are the names of what can be measured.
func Parts() []string {
	names := make([]string, len(parts))
	for i, p := range parts {
		names[i] = p.name
	}
	return names
}

// bench is one run.
type bench struct {
	o      Options
	place  *place
	report *Report
}

// Run measures and gives the report, also as far as it came when ctx ends.
func Run(ctx context.Context, o Options) (r *Report, err error) {
	o.setDefaults()
	b := &bench{o: o, report: newReport(&o)}
	b.place, err = newPlace(ctx, o.Database, o.Ranges)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, b.place.drop()) }()
	if err := b.about(ctx); err != nil {
		return nil, err
	}
	begin := readMachine()
	for _, p := range parts {
		if !o.wants(p.name) {
			continue
		}
		fmt.Fprintf(o.Progress, "%s ...\n", p.name)
		if err := p.run(b, ctx); err != nil {
			return b.report, fmt.Errorf("bench: %s: %w", p.name, err)
		}
	}
	b.report.finish(begin, b.place.server)
	return b.report, nil
}

func (o *Options) wants(name string) bool {
	if len(o.Only) == 0 {
		return true
	}
	for _, n := range o.Only {
		if n == name {
			return true
		}
	}
	return false
}
