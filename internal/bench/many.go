package bench

import (
	"context"
	"fmt"
	"time"

	"github.com/backend-skeleton/relay/internal/outbox"
	"github.com/backend-skeleton/relay/internal/relay"
)

// manyDestinations is what a large installation has.
const manyDestinations = 200

// many drains a backlog that is spread over many destinations, and sees what a relay costs that serves them and has
// nothing to do.
func (b *bench) many(ctx context.Context) error {
	var names []string
	for i := range manyDestinations {
		names = append(names, fmt.Sprintf("bench.many-%03d", i))
	}
	for i, s := range b.o.Settings {
		c := b.plain(s, &sink{})
		c.destinations = names
		d, err := b.drainMedian(ctx, c)
		if err != nil {
			return err
		}
		used, err := b.idle(ctx, c)
		if err != nil {
			return err
		}
		b.report.many(i, d, used)
	}
	return nil
}

// idle gives the share of one core that the server spends on a relay with nothing to do.
func (b *bench) idle(ctx context.Context, c cell) (share float64, err error) {
	if err := b.place.clear(ctx); err != nil {
		return 0, err
	}
	pool, err := b.place.open(ctx, 8)
	if err != nil {
		return 0, err
	}
	defer pool.Close()
	r, err := relay.New(b.config(outbox.New(pool, outbox.Config{Name: "bench", LeaseTTL: lease}), c, relay.Hooks{}))
	if err != nil {
		return 0, err
	}
	running, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- r.Run(running) }()
	pause(running, settling)
	cpu, start := b.place.server.cpu(), time.Now()
	pause(running, b.o.Steady)
	share = float64(b.place.server.cpu()-cpu) / float64(time.Since(start))
	stop()
	return share, <-ended
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}
