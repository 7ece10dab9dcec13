package torture

import (
	"context"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/backend-skeleton/relay/internal/outbox"
)

// operator does what people do to rows while all else goes on: parks some and redrives them a while later, hurries those
// that wait, skips what nobody can take.
type operator struct {
	db    *pgxpool.Pool
	store *outbox.Store
	r     *rand.Rand
	hurry bool // makes the rows due that wait behind their heads, and does nothing else
	done  map[outbox.Verb]int
	// finishing: nothing more is parked, everything that can be published is redriven, the rest skipped.
	finishing atomic.Bool
}

func newOperator(db *pgxpool.Pool, seed uint64, hurry bool) *operator {
	return &operator{
		db: db, store: outbox.New(db, outbox.Config{}), hurry: hurry, done: map[outbox.Verb]int{},
		r: rand.New(rand.NewPCG(seed, 0x09e7)), // it must be repeatable
	}
}

// run works until the context ends. A database that is away is tried again.
func (o *operator) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(time.Duration(50+o.r.IntN(200)) * time.Millisecond):
		}
		o.look(ctx)
	}
}

// The rows that each verb looks for, the youngest first. Those behind wait for the head of their key alone. What is parked
// was too large, was parked by the operator, or has used up its attempts.
const (
	waiting  = `select message_id, version from messaging_outbox where status in ('RETRYABLE_FAILURE', 'AMBIGUOUS') order by seq desc limit $1`
	behind   = `select message_id, version from messaging_outbox where status = 'AMBIGUOUS' and next_attempt_at is null order by seq desc limit $1`
	open     = `select message_id, version from messaging_outbox where status not in ('PUBLISHED', 'PARKED') order by seq desc limit $1`
	hopeless = `select message_id, version from messaging_outbox where status = 'PARKED' and skipped_at is null and message_type = '` + badType + `' limit $1`
	parked   = `select message_id, version from messaging_outbox where status = 'PARKED' and message_type <> '` + badType + `' limit $1`
)

func (o *operator) look(ctx context.Context) {
	if o.finishing.Load() {
		o.operate(ctx, outbox.Skip, hopeless, 500)
		o.operate(ctx, outbox.Redrive, parked, 500)
		return
	}
	switch n := o.r.IntN(12); {
	case o.hurry:
		o.operate(ctx, outbox.Retry, behind, 200)
	case n < 3:
		o.operate(ctx, outbox.Retry, waiting, 5)
	case n < 4:
		o.operate(ctx, outbox.Park, open, 2)
	case n < 5:
		o.operate(ctx, outbox.Skip, open, 1)
	case n < 6:
		o.operate(ctx, outbox.Redrive, hopeless, 1) // it comes back
	case n < 9:
		o.operate(ctx, outbox.Redrive, parked, 10)
	default:
		o.operate(ctx, outbox.Skip, hopeless, 10)
	}
}

// operate does the verb to some rows that the query finds, and counts those that it was done to.
func (o *operator) operate(ctx context.Context, verb outbox.Verb, query string, most int) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	rows, err := o.db.Query(ctx, query, most)
	if err != nil {
		return
	}
	targets, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (t outbox.Target, err error) {
		var id [16]byte
		err = row.Scan(&id, &t.Version)
		t.MessageID = uuid.UUID(id)
		return t, err
	})
	if err != nil || len(targets) == 0 {
		return
	}
	results, _ := o.store.Operate(ctx, verb, targets, "torture", Operator) // what was done before an error counts
	for _, r := range results {
		if r.Result == outbox.Done {
			o.done[verb]++
		}
	}
}
