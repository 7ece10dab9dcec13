package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/backend-skeleton/relay/internal/outbox"
	"github.com/backend-skeleton/relay/internal/relay"
	"github.com/backend-skeleton/relay/messaging"
	"github.com/backend-skeleton/relay/messaging/transport"
)

// stuck is how long a drain may take before it is given up.
const stuck = 2 * time.Minute

// cell is one drain of a backlog.
type cell struct {
	setting      Setting
	destinations []string
	endpoint     transport.Endpoint
	adapter      transport.Adapter
	rows         int
	key          keys
	relays       int // how many drain together; 0 is one
	payload      int // bytes of a payload; 0 is payloadBytes
	// before fills the table with what was there before the backlog, and gives what ends it.
	before func(context.Context) (end func(), err error)
	// claimed is told how long each claim took that found rows.
	claimed func(time.Duration)
}

// drained is what one drain came to.
type drained struct {
	rate   float64       // messages a second, from the relay's start to the last recorded outcome
	wal    float64       // bytes a message, of the whole server
	server time.Duration // CPU a message
	relay  time.Duration
}

// drainOnce loads a backlog and has relays publish it.
func (b *bench) drainOnce(ctx context.Context, c cell) (d drained, err error) {
	if err := b.place.clear(ctx); err != nil {
		return d, err
	}
	if c.before != nil {
		end, err := c.before(ctx)
		if err != nil {
			return d, err
		}
		defer end()
	}
	if err := b.place.checkpoint(ctx); err != nil {
		return d, err
	}
	if err := b.place.load(ctx, c.rows, c.destinations, c.key, c.payload); err != nil {
		return d, err
	}
	pool, err := b.place.open(ctx, 8)
	if err != nil {
		return d, err
	}
	defer pool.Close()
	return b.measure(ctx, c, pool)
}

// measure has relays publish what is in the table.
func (b *bench) measure(ctx context.Context, c cell, pool *pgxpool.Pool) (d drained, err error) {
	limited, cancel := context.WithTimeout(ctx, stuck)
	defer cancel()
	finished := make(chan time.Time, 1)
	hooks := c.hooks(func() {
		finished <- time.Now()
		cancel()
	})
	relays := make([]*relay.Relay, max(c.relays, 1))
	for i := range relays {
		if relays[i], err = relay.New(b.config(outbox.New(pool, outbox.Config{Name: "bench", LeaseTTL: lease}), c, hooks)); err != nil {
			return d, err
		}
	}
	before, err := wal(ctx, pool)
	if err != nil {
		return d, err
	}
	server, own, start := b.place.server.cpu(), ownCPU(), time.Now()
	var running sync.WaitGroup
	errs := make([]error, len(relays))
	for i, r := range relays {
		running.Go(func() { errs[i] = r.Run(limited) })
	}
	running.Wait()
	usedServer, usedOwn := b.place.server.cpu()-server, ownCPU()-own
	if err := errors.Join(errs...); err != nil {
		return d, err
	}
	select {
	case end := <-finished:
		d.rate = float64(c.rows) / end.Sub(start).Seconds()
	default:
		if ctx.Err() != nil {
			return d, ctx.Err()
		}
		return d, fmt.Errorf("not all of %d rows were published after %v", c.rows, stuck)
	}
	after, err := wal(ctx, pool)
	d.wal = float64(after-before) / float64(c.rows)
	d.server, d.relay = usedServer/time.Duration(c.rows), usedOwn/time.Duration(c.rows)
	return d, err
}

// hooks call done when the last row of the backlog is recorded.
func (c cell) hooks(done func()) relay.Hooks {
	left := &atomic.Int64{}
	left.Store(int64(c.rows))
	h := relay.Hooks{
		Recorded: func(_ messaging.DestinationName, o messaging.Completion, _ *messaging.Failure, _ string, rows int) {
			if o == messaging.Confirmed && left.Add(-int64(rows)) == 0 {
				done()
			}
		},
	}
	if c.claimed != nil {
		h.Claimed = func(_ messaging.DestinationName, rows int, took time.Duration) {
			if rows > 0 {
				c.claimed(took)
			}
		}
	}
	return h
}

// lease of the relays that are measured. The publish timeout fits into it.
const lease = 10 * time.Second

func (b *bench) config(store *outbox.Store, c cell, h relay.Hooks) relay.Config {
	conf := relay.Config{
		Store: store, Brokers: map[string]relay.Broker{"broker": {Adapter: c.adapter, InFlight: c.setting.InFlight}},
		Lease: lease, Batch: c.setting.Batch, Drain: 20 * time.Second, Hooks: h,
	}
	for _, name := range c.destinations {
		e := c.endpoint
		e.Name = messaging.DestinationName(name)
		conf.Destinations = append(conf.Destinations, relay.Destination{
			Name: e.Name, Broker: "broker", Endpoint: e, Ordered: true, Keyless: true, Block: true,
			Timeout: 5 * time.Second, Confirmation: messaging.LevelBrokerAck,
		})
	}
	return conf
}

// drainMedian repeats a drain and takes the run with the median rate.
func (b *bench) drainMedian(ctx context.Context, c cell) (drained, error) {
	var runs []drained
	for range b.o.Repeat {
		d, err := b.drainOnce(ctx, c)
		if err != nil {
			return d, err
		}
		fmt.Fprintf(b.o.Progress, "  %s: %.0f msg/s, WAL %.0f B, CPU %v + %v a message\n", c.setting, d.rate, d.wal, d.server, d.relay)
		runs = append(runs, d)
	}
	slices.SortFunc(runs, func(a, b drained) int { return int(a.rate - b.rate) })
	return runs[len(runs)/2], nil
}

// plain is the cell that the others are compared with.
func (b *bench) plain(s Setting, a transport.Adapter) cell {
	return cell{setting: s, destinations: []string{"bench.orders"}, adapter: a, rows: b.o.Rows, key: keyless}
}

func (b *bench) drain(ctx context.Context) error {
	for i, s := range b.o.Settings {
		d, err := b.drainMedian(ctx, b.plain(s, &sink{}))
		if err != nil {
			return err
		}
		b.report.drain(i, d)
	}
	return nil
}

func (b *bench) drainDelayed(ctx context.Context) error {
	for i, s := range b.o.Settings {
		d, err := b.drainMedian(ctx, b.plain(s, &sink{delay: 2 * time.Millisecond}))
		if err != nil {
			return err
		}
		b.report.delayed(i, d)
	}
	return nil
}

func (b *bench) drainKafka(ctx context.Context) (err error) {
	k, err := newKafka(ctx, b.o.Kafka)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, k.close()) }()
	bare, err := b.bare(ctx, k.publish)
	if err != nil {
		return err
	}
	b.report.bare("Kafka"+b.report.spare, bare)
	for i, s := range b.o.Settings {
		for _, hot := range []bool{false, true} {
			d, err := b.throughKafka(ctx, k, s, hot)
			if err != nil {
				return err
			}
			b.report.kafka(i, hot, d, bare)
		}
	}
	return nil
}

func (b *bench) throughKafka(ctx context.Context, k *kafkaCluster, s Setting, hot bool) (d drained, err error) {
	a, err := k.adapter(s.InFlight)
	if err != nil {
		return d, err
	}
	defer func() { err = errors.Join(err, closeAdapter(a)) }()
	c := b.plain(s, a)
	c.endpoint = k.endpoint()
	if hot {
		c.key = hotKey
	}
	return b.drainMedian(ctx, c)
}

func (b *bench) drainRabbit(ctx context.Context) (err error) {
	if b.o.RabbitMQ == "" {
		b.report.note("RabbitMQ was left out: no address was given")
		return nil
	}
	q, err := newRabbit(b.o.RabbitMQ, b.o.RabbitMQAPI)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, q.close()) }()
	bare, err := b.bare(ctx, q.publish)
	if err != nil {
		return err
	}
	b.report.bare("RabbitMQ", bare)
	for i, s := range b.o.Settings {
		d, err := b.throughRabbit(ctx, q, s)
		if err != nil {
			return err
		}
		b.report.rabbit(i, d, bare)
	}
	return nil
}

func (b *bench) throughRabbit(ctx context.Context, q *rabbitQueue, s Setting) (d drained, err error) {
	a, err := q.adapter(s.InFlight)
	if err != nil {
		return d, err
	}
	defer func() { err = errors.Join(err, closeAdapter(a)) }()
	c := b.plain(s, a)
	c.endpoint = q.endpoint()
	return b.drainMedian(ctx, c)
}

func closeAdapter(a transport.Adapter) error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	return a.Close(ctx)
}
