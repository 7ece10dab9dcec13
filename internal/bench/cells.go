package bench

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/backend-skeleton/relay/internal/outbox"
	"github.com/backend-skeleton/relay/internal/relay"
	"github.com/backend-skeleton/relay/messaging"
)

// last is the setting that the goals are about, and its column. What follows is measured for it alone.
func (b *bench) last() (column int, s Setting) {
	return len(b.o.Settings) - 1, b.o.Settings[len(b.o.Settings)-1]
}

// keyed drains backlogs of many, few and one ordering key.
func (b *bench) keyed(ctx context.Context) error {
	i, s := b.last()
	for _, k := range []struct {
		name string
		key  keys
	}{{"10,000 keys", among(10_000)}, {"100 keys", among(100)}, {"one hot key", hotKey}} {
		c := b.plain(s, &sink{})
		c.key = k.key
		d, err := b.drainMedian(ctx, c)
		if err != nil {
			return err
		}
		b.report.against(i, "drain, no-op broker, "+k.name, "  against keyless", "", "", 0, d.rate, b.report.plain[i])
	}
	return nil
}

// fleet drains with several relays, which share this machine with the server.
func (b *bench) fleet(ctx context.Context) error {
	i, s := b.last()
	for _, n := range []int{2, 4} {
		c := b.plain(s, &sink{})
		c.relays = n
		d, err := b.drainMedian(ctx, c)
		if err != nil {
			return err
		}
		name := fmt.Sprintf("drain, no-op broker, %d relays", n)
		b.report.against(i, name, "  against one relay", "", "", 0, d.rate, b.report.plain[i])
	}
	return nil
}

// busy drains what writers insert at the same time.
func (b *bench) busy(ctx context.Context) error {
	i, s := b.last()
	if err := b.place.clear(ctx); err != nil {
		return err
	}
	pool, err := b.place.open(ctx, 8+writers)
	if err != nil {
		return err
	}
	defer pool.Close()
	var recorded atomic.Int64
	r, err := relay.New(b.config(outbox.New(pool, outbox.Config{Name: "bench", LeaseTTL: lease}), b.plain(s, &sink{}), relay.Hooks{
		Recorded: func(_ messaging.DestinationName, _ messaging.Completion, _ *messaging.Failure, _ string, rows int) {
			recorded.Add(int64(rows))
		},
	}))
	if err != nil {
		return err
	}
	running, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- r.Run(running) }()
	pause(running, settling)
	before, start := recorded.Load(), time.Now()
	wrote, err := b.insertSlice(running, pool, b.o.Steady, true)
	rate := float64(recorded.Load()-before) / time.Since(start).Seconds()
	stop()
	if e := <-ended; err == nil {
		err = e
	}
	b.report.busy(i, wrote, rate)
	return err
}

// published drains from a table that holds many published rows already.
func (b *bench) published(ctx context.Context) error {
	i, s := b.last()
	n := b.o.scaled(5_000_000, 5)
	c := b.plain(s, &sink{})
	c.before = func(ctx context.Context) (func(), error) { return func() {}, b.place.history(ctx, n, true) }
	d, err := b.drainMedian(ctx, c)
	if err != nil {
		return err
	}
	b.report.against(i, fmt.Sprintf("drain, no-op broker, %d published rows", n), "  against none", "85 %", "95 %", 0.85, d.rate, b.report.plain[i])
	return nil
}

// blocked compares claims of other keys with and without many rows behind a blocked key.
func (b *bench) blocked(ctx context.Context) error {
	i, s := b.last()
	n := b.o.scaled(100_000, 1)
	c := b.plain(s, &sink{})
	c.key = among(1000)
	without, with, err := b.claims(ctx, c, func(ctx context.Context) (func(), error) { return func() {}, b.place.blocked(ctx, n) })
	if err != nil {
		return err
	}
	b.report.claims(i, fmt.Sprintf("claim p50 of other keys, %d rows behind a blocked key", n), without, with)
	return nil
}

// dead compares claims with and without dead entries of the claim's index that an old snapshot keeps.
func (b *bench) dead(ctx context.Context) error {
	i, s := b.last()
	n := b.o.scaled(1_000_000, 2)
	without, with, err := b.claims(ctx, b.plain(s, &sink{}), func(ctx context.Context) (func(), error) {
		end, err := b.place.snapshot(ctx)
		if err != nil {
			return nil, err
		}
		if err := b.place.history(ctx, n, false); err != nil {
			end()
			return nil, err
		}
		return end, nil
	})
	if err != nil {
		return err
	}
	b.report.claims(i, fmt.Sprintf("claim p50, %d dead entries", n), without, with)
	return nil
}

// claims gives the median of how long claims took without and with what before makes.
func (b *bench) claims(ctx context.Context, c cell, before func(context.Context) (func(), error)) (without, with time.Duration, err error) {
	for _, p50 := range []*time.Duration{&without, &with} {
		var mu sync.Mutex // pumps claim at the same time
		var took []time.Duration
		c.claimed = func(d time.Duration) {
			mu.Lock()
			defer mu.Unlock()
			took = append(took, d)
		}
		if _, err := b.drainMedian(ctx, c); err != nil {
			return 0, 0, err
		}
		slices.Sort(took)
		*p50 = took[len(took)/2]
		c.before = before
	}
	return without, with, nil
}

// memory is the most that this process held while it drained messages of 1 KB.
func (b *bench) memory(ctx context.Context) error {
	i, s := b.last()
	c := b.plain(s, &sink{})
	c.payload = 1024
	c.rows = b.o.scaled(1_000_000, 1)
	most := &peak{}
	c.before = func(context.Context) (func(), error) {
		debug.FreeOSMemory()
		return most.watch(), nil
	}
	if _, err := b.drainOnce(ctx, c); err != nil {
		return err
	}
	b.report.memory(i, c.rows, most.bytes)
	return nil
}

// peak of what the runtime has from the system.
type peak struct{ bytes uint64 }

func (p *peak) watch() (end func()) {
	stop, done := make(chan struct{}), make(chan struct{})
	tick := time.NewTicker(20 * time.Millisecond)
	go func() {
		defer close(done)
		defer tick.Stop()
		for {
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			p.bytes = max(p.bytes, m.Sys-m.HeapReleased)
			select {
			case <-tick.C:
			case <-stop:
				return
			}
		}
	}()
	return func() {
		close(stop)
		<-done
	}
}

// scaled is n in a full run, and otherwise in proportion to the rows of a drain.
func (o *Options) scaled(n int, times float64) int {
	if o.Full {
		return n
	}
	return int(math.Round(float64(o.Rows) * times))
}

// history makes rows that were published; vacuumed ones leave nothing dead behind.
func (p *place) history(ctx context.Context, n int, vacuumed bool) error {
	if err := p.load(ctx, n, []string{"bench.orders"}, keyless, 0); err != nil {
		return err
	}
	if _, err := p.pool.Exec(ctx, `update messaging_outbox set status = 'PUBLISHED', published_at = now(), version = 1`); err != nil {
		return err
	}
	if !vacuumed {
		return nil
	}
	_, err := p.pool.Exec(ctx, `vacuum analyze messaging_outbox`)
	return err
}

// blocked makes a parked head with rows that were set aside behind it.
func (p *place) blocked(ctx context.Context, n int) error {
	if err := p.load(ctx, n, []string{"bench.orders"}, func(int) any { return "blocked" }, 0); err != nil {
		return err
	}
	_, err := p.pool.Exec(ctx, `update messaging_outbox set version = 1,
		status = case when seq = (select min(seq) from messaging_outbox) then 'PARKED' else 'HELD' end::messaging_outbox_state`)
	return err
}

// snapshot keeps every row version that dies from now on, until it ends.
func (p *place) snapshot(ctx context.Context) (end func(), err error) {
	conn, err := p.pool.Acquire(ctx)
	if err != nil {
		return nil, err
	}
	tx, err := conn.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
	if err != nil {
		conn.Release()
		return nil, err
	}
	end = func() {
		_ = tx.Rollback(context.WithoutCancel(ctx)) // it read, nothing else
		conn.Release()
	}
	if _, err := tx.Exec(ctx, "select 1 from messaging_outbox limit 1"); err != nil {
		end()
		return nil, err
	}
	return end, nil
}
