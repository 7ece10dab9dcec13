package bench

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

const (
	orderSQL    = "insert into bench_order (customer, amount, note) values ($1, $2, $3)"
	customerSQL = "update bench_customer set orders = orders + 1 where id = $1"
	outboxSQL   = `insert into messaging_outbox (message_id, destination, message_type, producer, headers, payload)
 values ($1, $2, $3, $4, $5, $6)`
)

// writers are as many as insert in the comparison.
const writers = 8

// transaction is the business change: a row inserted, a row updated, in one pipelined batch; with a message if id is set.
func transaction(ctx context.Context, pool *pgxpool.Pool, id uuid.UUID, body []byte) error {
	customer := 1 + rand.IntN(1000)
	b := &pgx.Batch{}
	b.Queue("begin")
	b.Queue(orderSQL, customer, "12.50", "two of them, please")
	b.Queue(customerSQL, customer)
	if id != uuid.Nil {
		b.Queue(outboxSQL, [16]byte(id), "bench.orders", "bench.order.placed", "bench", headers, body)
	}
	b.Queue("commit")
	return pool.SendBatch(ctx, b).Close()
}

// insert compares transactions a second without and with one outbox row, in slices that take turns.
func (b *bench) insert(ctx context.Context) error {
	if err := b.place.clear(ctx); err != nil {
		return err
	}
	pool, err := b.place.open(ctx, writers)
	if err != nil {
		return err
	}
	defer pool.Close()
	if _, err := b.insertSlice(ctx, pool, time.Second, true); err != nil { // pages, plans and connections
		return err
	}
	const turns = 4
	var bare, with []float64
	for range turns {
		for _, message := range []bool{false, true} {
			rate, err := b.insertSlice(ctx, pool, b.o.Steady/turns, message)
			if err != nil {
				return err
			}
			if message {
				with = append(with, rate)
			} else {
				bare = append(bare, rate)
			}
		}
	}
	slices.Sort(bare)
	slices.Sort(with)
	middle := func(s []float64) float64 { return (s[(len(s)-1)/2] + s[len(s)/2]) / 2 }
	fmt.Fprintf(b.o.Progress, "  %.0f tx/s bare, %.0f with a message\n", middle(bare), middle(with))
	b.report.insert(middle(bare), middle(with))
	return nil
}

func (b *bench) insertSlice(ctx context.Context, pool *pgxpool.Pool, d time.Duration, message bool) (rate float64, err error) {
	limited, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var done atomic.Int64
	var wg sync.WaitGroup
	start := time.Now()
	body := payload()
	for range writers {
		wg.Go(func() {
			for time.Since(start) < d && limited.Err() == nil {
				id := uuid.Nil
				if message {
					id = uuid.Must(uuid.NewV7())
				}
				if err := transaction(limited, pool, id, body); err != nil {
					cancel(err)
					return
				}
				done.Add(1)
			}
		})
	}
	wg.Wait()
	if limited.Err() != nil {
		return 0, context.Cause(limited)
	}
	return float64(done.Load()) / time.Since(start).Seconds(), nil
}
