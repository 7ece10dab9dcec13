package relay

import (
	"context"
	"sync"

	"github.com/backend-skeleton/relay/messaging/transport"
)

// broker is one broker in use: its publisher, its breaker, and the places for rows that are open.
type broker struct {
	name      string
	adapter   transport.Adapter
	publisher transport.Publisher
	breaker   *breaker
	slots     slots
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
	br := &broker{name: name, adapter: b.Adapter, publisher: p}
	br.slots = slots{limit: limit, share: share, changed: func(used int) { r.c.Hooks.InFlight(name, used) }}
	br.breaker = newBreaker(r.c.Breaker, func(s BreakerState, reason string) {
		r.c.Hooks.Breaker(name, "", s, reason)
		r.wakeBroker(name)
	})
	return br, nil
}

// slots are places for open rows, from the claim until the adapter is done with them.
type slots struct {
	limit, share int
	changed      func(used int)

	mu      sync.Mutex // guards what follows
	used    int
	waiting []func()
}

// take gives up to want places to a pump that has mine already; if it gets none, more is called when some come free.
func (s *slots) take(want, mine int, more func()) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := max(min(want, s.limit-s.used, s.share-mine), 0)
	s.used += n
	if n == 0 && mine < s.share {
		s.waiting = append(s.waiting, more)
	}
	return n
}

// add counts places that were taken beyond what was given.
func (s *slots) add(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.used += n
}

func (s *slots) release(n int) {
	if n == 0 {
		return
	}
	s.mu.Lock()
	s.used -= n
	used, waiting := s.used, s.waiting
	s.waiting = nil
	s.mu.Unlock()
	s.changed(used)
	for _, more := range waiting {
		more()
	}
}
