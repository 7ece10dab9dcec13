package torture

import (
	"cmp"
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
	messageType = "torture.happened"
	badType     = "torture.too-large"
	userHeader  = "x-torture"
	mostBytes   = 4096 // of a payload; bad rows have more
)

// writers commit rows until they are stopped, and remember what they did.
type writers struct {
	db           *pgxpool.Pool
	destinations []string
	seed         uint64
	rate         int // rows a second, all together
	keys         int // ordering keys of a destination, one of them hot; a third of them is written under their lock
	clock        atomic.Int64

	mu      sync.Mutex
	written []Written
}

const writerCount = 6

// snapshot of what was written until now.
func (w *writers) snapshot() []Written {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.written)
}

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
	kind, payload, header string
	delay                 time.Duration
}

// transaction writes some rows and gives their number. It is bounded by itself, not by the end of the run, so that its
// fate is as certain as can be.
func (w *writers) transaction(r *rand.Rand) int {
	n := 1 + r.IntN(5)
	if r.IntN(20) == 0 {
		n = 20
	}
	destination, several := w.destination(r), r.IntN(4) == 0
	drafts := make([]draft, n)
	for i := range drafts {
		if several {
			destination = w.destination(r)
		}
		drafts[i] = w.draft(r, destination, i)
	}
	rollback, dawdle := r.IntN(20) == 0, time.Duration(0)
	if r.IntN(10) == 0 {
		dawdle = time.Duration(20+r.IntN(500)) * time.Millisecond
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	began, from := w.clock.Add(1), time.Now()
	fate := w.commit(ctx, drafts, rollback, dawdle)
	ended := w.clock.Add(1)
	if fate == Unknown {
		ended = Never
	}
	now := time.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range drafts {
		drafts[i].At, drafts[i].From, drafts[i].Due = now, from, from.Add(drafts[i].delay)
		drafts[i].Began, drafts[i].Ended, drafts[i].Fate = began, ended, fate
		w.written = append(w.written, drafts[i].Written)
	}
	return n
}

func (w *writers) destination(r *rand.Rand) string {
	return w.destinations[r.IntN(len(w.destinations))]
}

func (w *writers) draft(r *rand.Rand, destination string, place int) draft {
	d := draft{kind: messageType, header: fmt.Sprint(r.Uint32())}
	d.ID, d.Destination, d.Place = uuid.Must(uuid.NewV7()).String(), destination, place
	switch r.IntN(10) {
	case 0: // no key
	case 1:
		d.Key = "hot"
	default:
		n := r.IntN(w.keys)
		d.Key, d.Locked = fmt.Sprint("k", n), n%3 == 0
	}
	if r.IntN(30) == 0 {
		d.Scheduled, d.delay = true, time.Duration(300+r.IntN(3000))*time.Millisecond
	}
	length := 10 + r.IntN(300)
	if r.IntN(200) == 0 {
		d.Bad, d.kind, length = true, badType, mostBytes
	}
	d.payload = fmt.Sprintf(`{"id":%q,"x":"%0*x"}`, d.ID, length, r.Uint64())
	d.Digest = Digest(d.kind, d.Key, d.header, []byte(d.payload))
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
	for _, k := range locked(drafts) {
		batch.Queue(`select messaging_outbox_lock_key($1, $2)`, k[0], k[1])
	}
	for i := range drafts {
		d := &drafts[i]
		batch.Queue(insert, d.Destination, d.kind, d.payload, d.Key, userHeader, d.header, d.ID, d.delay.Seconds())
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

// locked gives the keys whose locks the transaction needs, with their destinations, sorted so that no two writers wait for
// each other.
func locked(drafts []draft) [][2]string {
	var keys [][2]string
	for i := range drafts {
		if drafts[i].Locked {
			keys = append(keys, [2]string{drafts[i].Destination, drafts[i].Key})
		}
	}
	slices.SortFunc(keys, func(a, b [2]string) int {
		return cmp.Or(cmp.Compare(a[0], b[0]), cmp.Compare(a[1], b[1]))
	})
	return slices.Compact(keys)
}
