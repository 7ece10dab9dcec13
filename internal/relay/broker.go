package relay

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/backend-skeleton/relay/messaging/transport"
)

// broker is one broker in use: its publisher, its breaker, and the places for rows that are open.
type broker struct {
	name      string
	adapter   transport.Adapter
	publisher transport.Publisher
	breaker   *breaker
	slots     slots
	endpoints []transport.Endpoint
	told      func(bytes int64)
	buffered  atomic.Int64
	silence   atomic.Pointer[silence] // what the last idle probe learned; nil for nothing bad
}

// buffer counts payload bytes that are handed to the adapter, or are done with.
func (b *broker) buffer(bytes int64) {
	if bytes != 0 {
		b.told(b.buffered.Add(bytes))
	}
}

func (r *Relay) openBroker(ctx context.Context, name string, b Broker, endpoints []transport.Endpoint, destinations int) (*broker, error) {
	p, err := b.Adapter.Publisher(ctx, endpoints)
	if err != nil {
		return nil, err
	}
	limit := b.InFlight
	def(&limit, 1000)
	share := limit
	if destinations > 1 { // one destination that does not answer leaves room for the others
		share = max(limit/2, 1)
	}
	br := &broker{name: name, adapter: b.Adapter, publisher: p, endpoints: endpoints}
	br.told = func(bytes int64) { r.c.Hooks.Buffered(name, bytes) }
	br.slots = slots{limit: limit, share: share, many: destinations > 1, least: leastOf(limit), changed: func(used int) { r.c.Hooks.InFlight(name, used) }}
	br.breaker = newBreaker(r.c.Breaker, func(s BreakerState, reason string) {
		r.c.Hooks.Breaker(name, "", s, reason)
		r.wakeBroker(name)
	}, func(rows int) { r.c.Hooks.SlowStart(name, "", rows) })
	return br, nil
}

// slots are places for open rows, from the claim until the adapter is done with them. A row that a broker does not answer
// keeps its place long after its outcome is recorded, so no destination may take more than it leaves free: any number of
// mute ones leaves room for the next. n busy destinations come to an equal part each, of n+1.
type slots struct {
	limit, share int
	many         bool // several destinations share them
	changed      func(used int)

	mu      sync.Mutex // guards what follows
	used    int
	waiting []*mailbox // in the order in which they came
	// least is what a pump is given at once if it wants so many, while places come and go: hundreds of busy destinations
	// would else take a few rows each, and what a claim and an outcome cost is for the statement as much as for the rows.
	least   int
	movedAt time.Time // when places were given or came free last
}

// standing is how long no place comes or goes until a pump takes less than it would like to.
const standing = 20 * time.Millisecond

// leastOf is the part of a broker's places that a pump waits for.
func leastOf(limit int) int { return limit / 8 }

// take gives up to want places to a pump that has mine already; if it gets none, it is woken when some come free.
func (s *slots) take(want, mine int, box *mailbox) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	free := s.limit - s.used
	most := free
	if s.many {
		most = (free - mine) / 2
		if mine == 0 && free > 0 {
			most = max(most, 1)
		}
	}
	n := s.worth(max(min(want, most), 0), want, free)
	s.used += n
	if n == 0 && want > 0 && !slices.Contains(s.waiting, box) {
		s.waiting = append(s.waiting, box)
	}
	return n
}

// worth gives n, or nothing where more will come free. Where mute destinations keep most places, less is worth it.
func (s *slots) worth(n, want, free int) int {
	switch {
	case n == 0 || !s.many:
		return n
	case n >= min(want, s.least):
		if free >= 4*s.least {
			s.least = min(2*s.least, leastOf(s.limit))
		}
	case time.Since(s.movedAt) < standing:
		return 0
	default:
		s.least = max(s.least/2, 1)
	}
	s.movedAt = time.Now()
	return n
}

// add counts places that were taken beyond what was given.
func (s *slots) add(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.used += n
}

// release wakes those who wait, as many as what comes free may be enough for.
func (s *slots) release(n int) {
	if n == 0 {
		return
	}
	s.mu.Lock()
	s.used -= n
	s.movedAt = time.Now()
	used, woken := s.used, s.waiting
	if s.many && s.least > 0 {
		woken = woken[:min(len(woken), n/s.least+1)]
	}
	s.waiting = s.waiting[len(woken):]
	if len(s.waiting) == 0 {
		s.waiting = nil
	}
	s.mu.Unlock()
	s.changed(used)
	for _, box := range woken {
		box.wake()
	}
}
