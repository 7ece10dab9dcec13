package relay

import (
	"slices"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/backend-skeleton/relay/internal/outbox"
	"github.com/backend-skeleton/relay/messaging"
)

// dryAfter is how long a lane may be read from its cursor alone. Rows become visible in the order of their commits,
// not of their seq: a lane must run dry and be read from its low mark, or a row that committed late stays behind.
const dryAfter = 200 * time.Millisecond

// lane is an owned lane. Its pump alone uses it, but for the atomic fields.
type lane struct {
	lease outbox.Lease
	pump  *pump
	// valid is when the lease ends by this process's own monotonic timer, started before the statement that took or
	// renewed it; as nanoseconds since the relay was made.
	valid atomic.Int64
	// number of the last step that this process has begun.
	number atomic.Int64
	// changes by others that the pump has seen.
	changes atomic.Int64

	heeded  int64 // changes by others after which the blocked keys were read
	ready   bool  // the former owner's window is taken over and the blocked keys are known
	leaving bool  // wanted by another relay: nothing more is claimed
	gone    bool  // lost or given back

	check    bool // there may be rows to read
	fromZero bool // the next dry read starts at 0
	mustDry  bool // rows behind the cursor wait to be read again
	past     bool // the last read found nothing but rows that are in hand: the next one goes on behind them
	cursor   int64
	low      int64
	dryAt    time.Time // of the last dry read
	zeroAt   time.Time // of the last read from 0
	zeroCost time.Duration
	floor    floor
	workAt   time.Time // when there was work last
	dueAt    time.Time // when the scout's word on due rows was last heeded
	lookedAt time.Time // when the blocked keys were read last

	stuck   []int64 // rows of which nothing can be recorded, as giveUp leaves them
	open    int     // rows in this process's hands
	batches []*batch
	ids     map[uuid.UUID]struct{}
	window  bool // the database may hold a window for this lane
	keys    map[string]*key
	// last published seq of recent keys, to see rows that became visible behind it.
	last map[string]int64
}

// pending are the rows in hand that were read as PENDING.
func (l *lane) pending() []int64 {
	var seqs []int64
	for _, b := range l.batches {
		seqs = append(seqs, b.seqs...)
	}
	return seqs
}

// batch is what one claim read from one lane's PENDING rows.
type batch struct {
	lo, hi int64
	left   int
	seqs   []int64
}

func newLane(p *pump, l outbox.Lease, valid time.Duration) *lane {
	ln := &lane{
		lease: l, pump: p, low: l.LowSeq, check: true, fromZero: true, workAt: time.Now(), lookedAt: time.Now(),
		ids: map[uuid.UUID]struct{}{}, keys: map[string]*key{}, last: map[string]int64{},
	}
	ln.valid.Store(int64(valid))
	ln.heeded = l.Changes // before they are read for the first time
	ln.changes.Store(l.Changes)
	ln.number.Store(outbox.TakenOver)
	return ln
}

// step begins a statement about the lane's window.
func (l *lane) step() outbox.Step {
	return outbox.Step{Lane: l.lease.Lane, Epoch: l.lease.Epoch, Number: l.number.Add(1)}
}

// openWindow is the union of what is open.
func (l *lane) openWindow() outbox.Window {
	var w outbox.Window
	for _, b := range l.batches {
		if w.Lo == 0 || b.lo < w.Lo {
			w.Lo = b.lo
		}
		w.Hi = max(w.Hi, b.hi)
	}
	for id := range l.ids {
		w.IDs = append(w.IDs, id)
	}
	return w
}

// limit of rows per claim: after crashes with this lane's window open, ever fewer, down to one.
func (l *lane) limit(batch int) int {
	for range min(l.lease.Crashes, 10) {
		batch /= 8
	}
	return max(batch, 1)
}

// crowded tells whether the window names as many rows as it may, but for one of each kind of deferred rows.
func (l *lane) crowded() bool { return l.roomForIDs() < 2 }

// roomForIDs is how many more rows the window may name.
func (l *lane) roomForIDs() int { return runLength - len(l.ids) }

// validUntil tells whether the lease lasts until the given time.
func (l *lane) validUntil(t time.Duration) bool { return int64(t) <= l.valid.Load() }

// readable tells whether the lane may be read now.
func (l *lane) readable(now time.Time) bool {
	if !l.ready || l.leaving || l.gone || !l.check {
		return false
	}
	return l.open == 0 || (!l.mustDry && now.Sub(l.dryAt) < l.dryAfter())
}

// dryAfter differs from lane to lane, so that not all of a destination run dry at the same time and its pump with them.
func (l *lane) dryAfter() time.Duration { return dryAfter - dryAfter/32*time.Duration(l.lease.Lane&15) }

// idle tells whether nothing of the lane is in this process's hands.
func (l *lane) idle() bool { return l.open == 0 }

func (l *lane) closed(f *flight) {
	l.open--
	delete(l.ids, f.row.MessageID)
	if b := f.batch; b != nil {
		if b.left--; b.left == 0 {
			l.batches = slices.DeleteFunc(l.batches, func(o *batch) bool { return o == b })
		}
	}
}

// lastKeys bounds the keys whose last published seq is remembered per lane.
const lastKeys = 4096

// publishedKey notes that the key's rows up to seq have been published.
func (l *lane) publishedKey(name string, seq int64) {
	if len(l.last) >= lastKeys {
		clear(l.last)
	}
	l.last[name] = max(l.last[name], seq)
}

// key is an ordering key with rows in this process's hands, or with rows in the table that wait.
type key struct {
	name string
	lane *lane
	// sent rows of the one open call, without verdict or with.
	sent    int
	going   bool // the call was handed over
	results []*flight
	// queue of claimed rows behind the open call, in seq order.
	queue []*flight
	// unrecorded outcomes and holds.
	unrecorded int
	// blocked: the table holds waiting rows or a parked head. lookAt is when to look again; zero is not by itself.
	blocked bool
	lookAt  time.Time
	// barrier is the seq of the row that holds the key, as the last look saw it; zero is not known. What stands before
	// it does not wait for it.
	barrier int64
}

func (l *lane) key(name string) *key {
	k := l.keys[name]
	if k == nil {
		k = &key{name: name, lane: l}
		l.keys[name] = k
	}
	return k
}

// forget drops a key that nothing is known of any more.
func (k *key) forget() {
	if k.sent == 0 && len(k.queue) == 0 && k.unrecorded == 0 && !k.blocked {
		delete(k.lane.keys, k.name)
	}
}

// lookable tells whether the table's word on the key can be trusted: nothing of it is on its way.
func (k *key) lookable(now time.Time) bool {
	return k.blocked && k.sent == 0 && k.unrecorded == 0 && len(k.queue) == 0 && !k.lookAt.IsZero() && !now.Before(k.lookAt)
}

// flight is a row in this process's hands.
type flight struct {
	row   *outbox.Row
	lane  *lane
	key   *key   // nil where no order holds
	batch *batch // nil where the window names the row by id
	bytes int64

	counted  bool // in its key's call
	sent     bool
	resolved bool // the adapter is done with it
	result   messaging.PublishResult
	end      disposition
	place    bool // holds a place of the broker
	tickets  tickets
	onWire   int64 // payload bytes, handed to the adapter
}

func (f *flight) byID() bool { return f.batch == nil }
