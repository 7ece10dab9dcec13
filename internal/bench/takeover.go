package bench

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/backend-skeleton/relay/internal/outbox"
	"github.com/backend-skeleton/relay/internal/relay"
)

const (
	// takeOverLease is short, so that the measurement is.
	takeOverLease   = 3 * time.Second
	takeOverTimeout = 2 * time.Second
	takeOverRows    = 2000
)

// takeOver kills a relay that has rows on the wire, and sees how long its rows wait for another relay.
func (b *bench) takeOver(ctx context.Context) error {
	if b.o.Victim == nil {
		return nil
	}
	for i, s := range b.o.Settings {
		took, err := b.takeOverOnce(ctx, s)
		if err != nil {
			return err
		}
		fmt.Fprintf(b.o.Progress, "  %s: %v after the kill\n", s, took.Round(time.Millisecond))
		b.report.takeOver(i, took-takeOverLease)
	}
	return nil
}

func (b *bench) takeOverOnce(ctx context.Context, s Setting) (took time.Duration, err error) {
	if err := b.place.clear(ctx); err != nil {
		return 0, err
	}
	if err := b.place.load(ctx, takeOverRows, []string{"bench.orders"}, keyless, 0); err != nil {
		return 0, err
	}
	kill, err := b.o.Victim(ctx, b.place.name, s)
	if err != nil {
		return 0, err
	}
	killed := false
	defer func() {
		if !killed {
			err = errors.Join(err, kill())
		}
	}()
	pool, err := b.place.open(ctx, 8)
	if err != nil {
		return 0, err
	}
	defer pool.Close()
	if err := until(ctx, pool, 20*time.Second, "select exists (select from messaging_outbox_lane where window_lo is not null)"); err != nil {
		return 0, fmt.Errorf("the victim claimed nothing: %w", err)
	}
	r, err := relay.New(b.takeOverConfig(pool, s, &sink{}))
	if err != nil {
		return 0, err
	}
	running, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- r.Run(running) }()
	if err := until(ctx, pool, 10*time.Second, "select count(*) = 2 from messaging_outbox_relay where state = 'RUNNING'"); err != nil {
		return 0, fmt.Errorf("the second relay did not start: %w", err)
	}
	start := time.Now()
	killed = true
	if err := kill(); err != nil {
		return 0, err
	}
	if err := until(ctx, pool, takeOverLease+20*time.Second, "select not exists (select from messaging_outbox where status <> 'PUBLISHED')"); err != nil {
		return 0, fmt.Errorf("not everything was taken over: %w", err)
	}
	took = time.Since(start)
	stop()
	return took, <-ended
}

func (b *bench) takeOverConfig(pool *pgxpool.Pool, s Setting, a *sink) relay.Config {
	c := b.plain(s, a)
	conf := b.config(outbox.New(pool, outbox.Config{Name: "bench", LeaseTTL: takeOverLease}), c, relay.Hooks{})
	conf.Lease = takeOverLease
	conf.Destinations[0].Timeout = takeOverTimeout
	return conf
}

// Victim runs a relay in the schema of a run, until it is killed: its broker never answers.
func Victim(ctx context.Context, database, schema string, s Setting) error {
	conf, err := pgxpool.ParseConfig(database)
	if err != nil {
		return errors.New("bench: the database's connection string cannot be parsed")
	}
	conf.ConnConfig.RuntimeParams["search_path"] = schema
	pool, err := pgxpool.NewWithConfig(ctx, conf)
	if err != nil {
		return err
	}
	defer pool.Close()
	b := &bench{}
	r, err := relay.New(b.takeOverConfig(pool, s, &sink{delay: time.Hour}))
	if err != nil {
		return err
	}
	return r.Run(ctx)
}

// until polls a condition in the database.
func until(ctx context.Context, pool *pgxpool.Pool, limit time.Duration, condition string) error {
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for {
		var holds bool
		if err := pool.QueryRow(limited, condition).Scan(&holds); err != nil {
			return err
		}
		if holds {
			return nil
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-limited.Done():
			return limited.Err()
		}
	}
}
