package torture

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

const (
	messageType = "torture.happened"
	userHeader  = "x-torture"
	keysEach    = 40 // ordering keys of a destination, one of them hot
)

// writers commit rows until they are stopped, and remember what they did.
type writers struct {
	db           *pgxpool.Pool
	destinations []string
	seed         uint64
	rate         int // rows a second, all together
	clock        atomic.Int64

	mu      sync.Mutex
	written []Written
}

const writerCount = 6

func (w *writers) run(ctx context.Context) {
	var wg sync.WaitGroup
	for i := range writerCount {
		wg.Go(func() { w.write(ctx, rand.New(rand.NewPCG(w.seed, uint64(i)))) }) // it must be repeatable
	}
	wg.Wait()
}

func (w *writers) write(ctx context.Context, r *rand.Rand) {
	for {
		start := time.Now()
		n := w.transaction(r)
		rest := time.Duration(n*writerCount) * time.Second / time.Duration(w.rate)
		select {
		case <-ctx.Done():
			return
		case <-time.After(max(rest-time.Since(start), time.Millisecond)):
		}
	}
}

// draft is a row that a transaction will insert.
type draft struct {
	Written
	payload, header string
	delay           time.Duration
}

// transaction writes some rows and gives their number. It is bounded by itself, not by the end of the run, so that its
// fate is as certain as can be.
func (w *writers) transaction(r *rand.Rand) int {
	n := 1 + r.IntN(5)
	if r.IntN(20) == 0 {
		n = 20
	}
	destination := w.destinations[r.IntN(len(w.destinations))]
	drafts := make([]draft, n)
	for i := range drafts {
		drafts[i] = w.draft(r, destination, i)
	}
	rollback, dawdle := r.IntN(20) == 0, time.Duration(0)
	if r.IntN(10) == 0 {
		dawdle = time.Duration(20+r.IntN(500)) * time.Millisecond
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	began := w.clock.Add(1)
	fate := w.commit(ctx, drafts, rollback, dawdle)
	ended := w.clock.Add(1)
	if fate == Unknown {
		ended = Never
	}
	now := time.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range drafts {
		drafts[i].At = now
		drafts[i].Began, drafts[i].Ended, drafts[i].Fate = began, ended, fate
		w.written = append(w.written, drafts[i].Written)
	}
	return n
}

func (w *writers) draft(r *rand.Rand, destination string, place int) draft {
	d := draft{header: fmt.Sprint(r.Uint32())}
	d.ID, d.Destination, d.Place = uuid.Must(uuid.NewV7()).String(), destination, place
	switch r.IntN(10) {
	case 0: // no key
	case 1:
		d.Key = "hot"
	default:
		d.Key = fmt.Sprint("k", r.IntN(keysEach))
	}
	if r.IntN(30) == 0 {
		d.Scheduled, d.delay = true, time.Duration(300+r.IntN(3000))*time.Millisecond
	}
	d.payload = fmt.Sprintf(`{"id":%q,"x":"%0*x"}`, d.ID, 10+r.IntN(300), r.Uint64())
	d.Digest = Digest(messageType, d.Key, d.header, []byte(d.payload))
	return d
}

const insert = `select messaging_outbox_add($1, $2, 'torture', convert_to($3, 'utf8'), ordering_key => nullif($4, ''),
  headers => jsonb_build_object($5::text, $6::text), message_id => $7::uuid,
  available_at => case when $8::float8 > 0 then clock_timestamp() + $8 * interval '1 second' end)`

// commit tells what became of the transaction. What fails before the commit was asked for is rolled back.
func (w *writers) commit(ctx context.Context, drafts []draft, rollback bool, dawdle time.Duration) Fate {
	tx, err := w.db.Begin(ctx)
	if err != nil {
		return RolledBack
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }() // after the commit it does nothing
	var batch pgx.Batch
	for i := range drafts {
		d := &drafts[i]
		batch.Queue(insert, d.Destination, messageType, d.payload, d.Key, userHeader, d.header, d.ID, d.delay.Seconds())
	}
	if err := tx.SendBatch(ctx, &batch).Close(); err != nil {
		return RolledBack
	}
	if dawdle > 0 {
		<-time.After(dawdle) // so that others commit meanwhile
	}
	if rollback {
		return RolledBack
	}
	if err := tx.Commit(ctx); err != nil {
		return Unknown
	}
	return Committed
}
