package relay

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/backend-skeleton/relay/internal/outbox"
	"github.com/backend-skeleton/relay/messaging"
)

const (
	groupRows = 1000
	groupTime = 5 * time.Millisecond
)

// entry is an outcome on its way to the table. A late one needs no lease.
type entry struct {
	f    *flight
	o    outbox.Outcome
	late bool
}

// recorder writes the outcomes of one pump, grouped. It goes on until everything is written: an outcome that a broker
// gave is never dropped because the database is away.
type recorder struct {
	p      *pump
	signal chan struct{}
	held   atomic.Bool // what it writes has failed and is tried again

	mu     sync.Mutex // guards what follows
	queue  []entry
	closed bool
}

func newRecorder(p *pump) *recorder { return &recorder{p: p, signal: make(chan struct{}, 1)} }

func (r *recorder) put(e entry) {
	r.mu.Lock()
	r.queue = append(r.queue, e)
	n := len(r.queue)
	r.mu.Unlock()
	if n == 1 || n == groupRows {
		r.wake()
	}
}

// behind tells whether outcomes come faster than the database takes them: two groups wait besides the one being written,
// or it does not take one now. Whatever else were published would be a duplicate, should this process end first.
func (r *recorder) behind() bool {
	if r.held.Load() {
		return true
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.queue) >= 2*groupRows
}

func (r *recorder) wake() {
	select {
	case r.signal <- struct{}{}:
	default:
	}
}

// close ends run once the queue is written.
func (r *recorder) close() {
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()
	r.wake()
}

func (r *recorder) take() (entries []entry, more, closed bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := min(len(r.queue), groupRows)
	entries, r.queue = r.queue[:n:n], r.queue[n:]
	return entries, len(r.queue) > 0, r.closed
}

func (r *recorder) run(hard context.Context) {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for more, closed := false, false; ; {
		if !more {
			if closed {
				return
			}
			select {
			case <-r.signal:
			case <-hard.Done():
				return
			}
			r.gather(hard, timer)
		}
		var entries []entry
		entries, more, closed = r.take()
		if len(entries) > 0 && !r.write(hard, entries, false) {
			return
		}
	}
}

// gather waits for more, a little.
func (r *recorder) gather(hard context.Context, timer *time.Timer) {
	timer.Reset(groupTime)
	for {
		r.mu.Lock()
		enough := len(r.queue) >= groupRows || r.closed
		r.mu.Unlock()
		if enough {
			return
		}
		select {
		case <-r.signal:
		case <-timer.C:
			return
		case <-hard.Done():
			return
		}
	}
}

// write repeats until the database has it. What the table refuses for good is found by halves, so that one row's outcome
// never holds up the others'. again tells that some of it may be written already.
func (r *recorder) write(hard context.Context, entries []entry, again bool) bool {
	outcomes := make([]outbox.Outcome, 0, len(entries))
	var late []outbox.Late
	for i := range entries {
		e := &entries[i]
		if e.late {
			late = append(late, outbox.Late{ID: e.o.ID, Result: e.o.Result})
			continue
		}
		outcomes = append(outcomes, e.o)
	}
	var missed []uuid.UUID
	tries := 0
	if len(outcomes) > 0 {
		err := r.repeat(hard, "record outcomes", func(ctx context.Context) (err error) {
			tries++
			missed, err = r.p.r.c.Store.Record(ctx, outcomes)
			return err
		})
		if errors.Is(err, outbox.ErrRefused) {
			return r.refused(hard, entries, err)
		}
		if err != nil {
			return false
		}
	}
	if len(missed) > 0 && (again || tries > 1) { // an answer may have been lost after it was written
		var ok bool
		if missed, ok = r.settled(hard, missed, outcomes); !ok {
			return false
		}
	}
	if len(missed) > 0 {
		var ok bool
		if late, ok = r.missed(hard, missed, outcomes, late); !ok {
			return false
		}
	}
	var changed []uuid.UUID
	if len(late) > 0 {
		err := r.repeat(hard, "record late confirmations", func(ctx context.Context) (err error) {
			changed, err = r.p.r.c.Store.RecordLate(ctx, late)
			return err
		})
		if errors.Is(err, outbox.ErrRefused) {
			return r.refused(hard, entries, err) // outcomes that were recorded are found to be
		}
		if err != nil {
			return false
		}
	}
	r.report(outcomes, missed)
	if len(changed) > 0 {
		r.p.r.c.Hooks.LateConfirmed(r.p.d.Name, len(changed))
	}
	r.p.box.post(func() {
		r.p.recorded(entries)
	})
	return true
}

// settled leaves of the missed ids those that an earlier try did not write.
func (r *recorder) settled(hard context.Context, missed []uuid.UUID, outcomes []outbox.Outcome) ([]uuid.UUID, bool) {
	var unsure []outbox.Outcome
	for i := range outcomes {
		if slices.Contains(missed, outcomes[i].ID) {
			unsure = append(unsure, outcomes[i])
		}
	}
	var written []uuid.UUID
	if r.repeat(hard, "look for recorded outcomes", func(ctx context.Context) (err error) {
		written, err = r.p.r.c.Store.AlreadyRecorded(ctx, unsure)
		return err
	}) != nil {
		return nil, false
	}
	return slices.DeleteFunc(missed, func(id uuid.UUID) bool { return slices.Contains(written, id) }), true
}

// missed looks at rows whose outcome changed nothing: those that are published already are well; of the others the
// lease was lost, and what the broker confirmed is still true.
func (r *recorder) missed(hard context.Context, ids []uuid.UUID, outcomes []outbox.Outcome, late []outbox.Late) ([]outbox.Late, bool) {
	var open []uuid.UUID
	if r.repeat(hard, "look for open rows", func(ctx context.Context) (err error) {
		open, err = r.p.r.c.Store.StillOpen(ctx, ids)
		return err
	}) != nil {
		return nil, false
	}
	lost := make(map[uuid.UUID]bool, len(open))
	for _, id := range open {
		lost[id] = true
	}
	for i := range outcomes {
		if o := &outcomes[i]; lost[o.ID] && o.Status == outbox.Published {
			late = append(late, outbox.Late{ID: o.ID, Result: o.Result})
		}
	}
	if len(open) > 0 {
		r.p.r.c.Hooks.LostLease(r.p.d.Name, len(open))
	}
	return late, true
}

// repeat calls f until it succeeds, with growing pauses. An error is one of the end of hard, or of what the table refuses.
func (r *recorder) repeat(hard context.Context, operation string, f func(context.Context) error) error {
	defer r.held.Store(false)
	for tries := 1; ; tries++ {
		err := f(hard)
		if err == nil || hard.Err() != nil || errors.Is(err, outbox.ErrRefused) {
			if tries > 1 {
				r.p.r.database.works(r, true)
			}
			return err
		}
		r.held.Store(true)
		r.p.r.c.Hooks.Trouble(operation, err)
		r.p.r.database.failed(r, tries, err)
		select {
		case <-time.After(quiet(tries)):
		case <-hard.Done():
			return err
		}
	}
}

// quiet is the pause after so many failures of the database in a row.
func quiet(troubles int) time.Duration {
	return min(100*time.Millisecond<<min(troubles-1, 5), 2*time.Second)
}

type recordedKind struct {
	completion messaging.Completion
	category   messaging.Category
	code       string
	state      outbox.State
}

// report counts what was written, by kind.
func (r *recorder) report(outcomes []outbox.Outcome, missed []uuid.UUID) {
	skip := make(map[uuid.UUID]bool, len(missed))
	for _, id := range missed {
		skip[id] = true
	}
	rows := map[recordedKind]int{}
	failure := map[recordedKind]*messaging.Failure{}
	for i := range outcomes {
		o := &outcomes[i]
		if skip[o.ID] {
			continue
		}
		k := recordedKind{completion: o.Result.Completion, state: o.Status}
		if f := o.Result.Failure; f != nil {
			k.category, k.code = f.Category, f.Code
			failure[k] = f
		}
		rows[k]++
	}
	for k, n := range rows {
		r.p.r.c.Hooks.Recorded(r.p.d.Name, k.completion, failure[k], string(k.state), n)
	}
}
