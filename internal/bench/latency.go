package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/backend-skeleton/relay/internal/outbox"
	"github.com/backend-skeleton/relay/internal/relay"
	"github.com/backend-skeleton/relay/messaging"
)

const (
	steadyRate    = 500 // messages a second
	steadyWriters = 4
	wakeChannel   = "messaging_outbox"
	wakePause     = 5 * time.Millisecond // between two notifications
	// settling is left out of the numbers: leases are taken, plans made.
	settling = time.Second
)

// latency measures from the return of the writer's COMMIT to the moment when the broker has the message in hand.
func (b *bench) latency(ctx context.Context) error {
	for i, s := range b.o.Settings {
		for _, wake := range []bool{true, false} {
			l, err := b.latencyOnce(ctx, s, wake)
			if err != nil {
				return err
			}
			fmt.Fprintf(b.o.Progress, "  %s, wake-up %v: p50 %v, p99 %v, max %v of %d\n", s, wake, l.at(0.5), l.at(0.99), l.at(1), len(l))
			b.report.latency(i, wake, l)
		}
	}
	return nil
}

// latencies in ascending order.
type latencies []time.Duration

func (l latencies) at(share float64) time.Duration {
	if len(l) == 0 {
		return 0
	}
	return l[min(int(share*float64(len(l))), len(l)-1)].Round(10 * time.Microsecond)
}

func (b *bench) latencyOnce(ctx context.Context, s Setting, wake bool) (l latencies, err error) {
	if err := b.place.clear(ctx); err != nil {
		return nil, err
	}
	pool, err := b.place.open(ctx, 8)
	if err != nil {
		return nil, err
	}
	defer pool.Close()
	w := &watch{committed: map[uuid.UUID]time.Time{}, arrived: map[uuid.UUID]time.Time{}}
	c := b.plain(s, &sink{seen: w.saw})
	conf := b.config(outbox.New(pool, outbox.Config{Name: "bench", LeaseTTL: lease}), c, relay.Hooks{})
	if wake {
		conf.Wake = func(ctx context.Context, woken func()) error { return listen(ctx, b.place.conf.ConnConfig, woken) }
	}
	r, err := relay.New(conf)
	if err != nil {
		return nil, err
	}
	running, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- r.Run(running) }()
	err = b.steady(running, w, wake)
	if err == nil {
		err = w.wait(running)
	}
	stop()
	if e := <-ended; err == nil {
		err = e
	}
	return w.latencies(), err
}

// steady writes for a while at an even pace.
func (b *bench) steady(ctx context.Context, w *watch, wake bool) error {
	pool, err := b.place.open(ctx, steadyWriters)
	if err != nil {
		return err
	}
	defer pool.Close()
	var bell *bell
	if wake {
		if bell, err = newBell(ctx, b.place.conf.ConnConfig); err != nil {
			return err
		}
		defer bell.close()
	}
	var wg sync.WaitGroup
	errs := make([]error, steadyWriters)
	start, body := time.Now(), payload()
	for n := range steadyWriters {
		wg.Go(func() { errs[n] = write(ctx, pool, w, bell, start, b.o.Steady+settling, n, body) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

func write(ctx context.Context, pool *pgxpool.Pool, w *watch, bell *bell, start time.Time, d time.Duration, n int, body []byte) error {
	const every = time.Second * steadyWriters / steadyRate
	next := start.Add(every * time.Duration(n) / steadyWriters)
	for next.Sub(start) < d {
		select {
		case <-time.After(time.Until(next)): // the pace is the measurement
		case <-ctx.Done():
			return ctx.Err()
		}
		id := uuid.Must(uuid.NewV7())
		if err := transaction(ctx, pool, id, body); err != nil {
			return err
		}
		w.wrote(id, next.Sub(start) >= settling)
		if bell != nil {
			bell.ring()
		}
		next = next.Add(every)
	}
	return nil
}

// watch knows when messages were committed and when they arrived.
type watch struct {
	mu        sync.Mutex // guards what follows
	committed map[uuid.UUID]time.Time
	arrived   map[uuid.UUID]time.Time
}

func (w *watch) wrote(id uuid.UUID, counts bool) {
	now := time.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	if counts {
		w.committed[id] = now
	}
}

func (w *watch) saw(id messaging.MessageID) {
	now := time.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.arrived[id.UUID()] = now
}

// wait until everything that was written has arrived.
func (w *watch) wait(ctx context.Context) error {
	limited, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		w.mu.Lock()
		missing := 0
		for id := range w.committed {
			if _, ok := w.arrived[id]; !ok {
				missing++
			}
		}
		w.mu.Unlock()
		if missing == 0 {
			return nil
		}
		select {
		case <-tick.C:
		case <-limited.Done():
			return fmt.Errorf("%d messages did not arrive", missing)
		}
	}
}

func (w *watch) latencies() latencies {
	w.mu.Lock()
	defer w.mu.Unlock()
	var l latencies
	for id, at := range w.committed {
		if seen, ok := w.arrived[id]; ok {
			l = append(l, max(seen.Sub(at), 0)) // it may be read before the writer hears of its commit
		}
	}
	slices.Sort(l)
	return l
}

// bell sends one notification for the commits of a short while, as the client does.
type bell struct {
	rang chan struct{}
	stop context.CancelFunc
	done chan struct{}
}

func newBell(ctx context.Context, conf *pgx.ConnConfig) (*bell, error) {
	conn, err := pgx.ConnectConfig(ctx, conf)
	if err != nil {
		return nil, err
	}
	if _, err := conn.Exec(ctx, "set synchronous_commit = off"); err != nil {
		return nil, errors.Join(err, conn.Close(ctx))
	}
	ctx, stop := context.WithCancel(ctx)
	b := &bell{rang: make(chan struct{}, 1), stop: stop, done: make(chan struct{})}
	go func() {
		defer close(b.done)
		defer conn.Close(context.WithoutCancel(ctx))
		for {
			select {
			case <-b.rang:
			case <-ctx.Done():
				return
			}
			if _, err := conn.Exec(ctx, "notify "+wakeChannel); err != nil {
				return // polling finds the rest, and the numbers show it
			}
			select {
			case <-time.After(wakePause):
			case <-ctx.Done():
				return
			}
		}
	}()
	return b, nil
}

func (b *bell) ring() {
	select {
	case b.rang <- struct{}{}:
	default:
	}
}

func (b *bell) close() {
	b.stop()
	<-b.done
}

// listen tells of notifications until ctx ends.
func listen(ctx context.Context, conf *pgx.ConnConfig, woken func()) error {
	conn, err := pgx.ConnectConfig(ctx, conf)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	if _, err := conn.Exec(ctx, "listen "+wakeChannel); err != nil {
		return err
	}
	woken()
	for {
		if _, err := conn.WaitForNotification(ctx); err != nil {
			return err
		}
		woken()
	}
}
