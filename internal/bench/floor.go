package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/twmb/franz-go/pkg/kgo"
)

// floorBatch is the number of rows that the floor reads, produces and marks at a time.
const floorBatch = 1000

// floor measures what this machine gives at best: one loop that reads rows of a minimal table, produces them to a Kafka
// in this process, and marks them, one after the other. Nothing is leased, nothing fenced, nothing ordered.
func (b *bench) floor(ctx context.Context) (err error) {
	k, err := newKafka(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, k.close()) }()
	pool, err := b.place.open(ctx, 1)
	if err != nil {
		return err
	}
	defer pool.Close()
	var runs []floorRates
	for range b.o.Repeat {
		f, err := b.floorOnce(ctx, pool, k.admin)
		if err != nil {
			return err
		}
		fmt.Fprintf(b.o.Progress, "  read %.0f, produce %.0f, mark %.0f rows/s: %.0f msg/s one after the other\n", f.read, f.produce, f.mark, f.serial)
		runs = append(runs, f)
	}
	slices.SortFunc(runs, func(a, b floorRates) int { return int(a.serial - b.serial) })
	b.report.floor(runs[len(runs)/2])
	return nil
}

// floorRates are rows a second.
type floorRates struct{ read, produce, mark, serial float64 }

func (b *bench) floorOnce(ctx context.Context, pool *pgxpool.Pool, client *kgo.Client) (f floorRates, err error) {
	rows := b.o.Rows
	if _, err := pool.Exec(ctx, "truncate bench_floor"); err != nil {
		return f, err
	}
	if err := b.place.checkpoint(ctx); err != nil {
		return f, err
	}
	body, n := payload(), 0
	if _, err := pool.CopyFrom(ctx, pgx.Identifier{"bench_floor"}, []string{"seq", "payload"}, pgx.CopyFromFunc(func() ([]any, error) {
		if n == rows {
			return nil, nil
		}
		n++
		return []any{int64(n), body}, nil
	})); err != nil {
		return f, err
	}
	var reading, producing, marking time.Duration
	records := make([]*kgo.Record, 0, floorBatch)
	for done := 0; done < rows; {
		start := time.Now()
		last := int64(0)
		records = records[:0]
		found, err := pool.Query(ctx, "select seq, payload from bench_floor where seq > $1 order by seq limit $2", int64(done), floorBatch)
		if err != nil {
			return f, err
		}
		for found.Next() {
			r := &kgo.Record{}
			if err := found.Scan(&last, &r.Value); err != nil {
				return f, err
			}
			records = append(records, r)
		}
		if err := found.Err(); err != nil {
			return f, err
		}
		read := time.Now()
		if err := client.ProduceSync(ctx, records...).FirstErr(); err != nil {
			return f, err
		}
		produced := time.Now()
		if _, err := pool.Exec(ctx, "update bench_floor set done = true where seq between $1 and $2", int64(done)+1, last); err != nil {
			return f, err
		}
		reading, producing, marking = reading+read.Sub(start), producing+produced.Sub(read), marking+time.Since(produced)
		done = int(last)
	}
	rate := func(d time.Duration) float64 { return float64(rows) / d.Seconds() }
	return floorRates{read: rate(reading), produce: rate(producing), mark: rate(marking), serial: rate(reading + producing + marking)}, nil
}
