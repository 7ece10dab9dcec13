package messagingtest

import (
	"context"
	"slices"
	"sync"

	"github.com/backend-skeleton/relay/messaging"
	"github.com/backend-skeleton/relay/messaging/transport"
)

// sink writes down what an adapter delivers and holds it to the rules of the port:
// calls of one unit are serial, a delivery is of an assigned epoch, epochs grow.
type sink struct {
	k *kit
	// revoked is called within Revoked.
	revoked func(us []transport.Unit)

	mu       sync.Mutex // guards what follows
	got      []transport.Delivery
	assigned map[transport.Unit]bool
	epochs   map[string]uint64
	lost     []transport.Unit
	taken    []transport.Unit
	busy     map[string]bool
	broken   []string // rules that were broken
}

// enter notes a call about units; leave ends it.
func (s *sink) enter(us ...transport.Unit) (leave func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.busy == nil {
		s.busy, s.assigned, s.epochs = map[string]bool{}, map[transport.Unit]bool{}, map[string]uint64{}
	}
	for _, u := range us {
		if s.busy[u.Name] {
			s.broken = append(s.broken, "two calls of one unit at the same time")
		}
		s.busy[u.Name] = true
	}
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, u := range us {
			delete(s.busy, u.Name)
		}
	}
}

func (s *sink) Assigned(us []transport.Unit) {
	defer s.enter(us...)()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, u := range us {
		if old, again := s.epochs[u.Name]; again && u.Epoch <= old {
			s.broken = append(s.broken, "an epoch that does not grow")
		}
		s.assigned[u], s.epochs[u.Name] = true, u.Epoch
	}
}

func (s *sink) Deliver(d transport.Delivery) {
	defer s.enter(d.Unit)()
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.assigned[d.Unit] {
		s.broken = append(s.broken, "a delivery of a unit that is not assigned")
	}
	if d.ReceivedAt.IsZero() || d.Position.Text == "" {
		s.broken = append(s.broken, "a delivery without time or position")
	}
	s.got = append(s.got, d)
}

func (s *sink) Revoked(_ context.Context, us []transport.Unit) {
	defer s.enter(us...)()
	if s.revoked != nil {
		s.revoked(us)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.taken = append(s.taken, us...)
	s.forget(us)
}

func (s *sink) Lost(us []transport.Unit) {
	defer s.enter(us...)()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lost = append(s.lost, us...)
	s.forget(us)
}

func (s *sink) forget(us []transport.Unit) {
	for _, u := range us {
		delete(s.assigned, u)
	}
}

func (s *sink) deliveries() []transport.Delivery {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.got)
}

// of gives the deliveries of a message.
func (s *sink) of(m transport.Message) (out []transport.Delivery) {
	for _, d := range s.deliveries() {
		if header(d.Message, transport.HeaderID) == header(m, transport.HeaderID) {
			out = append(out, d)
		}
	}
	return out
}

func (s *sink) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.got)
}

// units gives the names of the units that are assigned.
func (s *sink) units() []transport.Unit {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]transport.Unit, 0, len(s.assigned))
	for u := range s.assigned {
		out = append(out, u)
	}
	return out
}

// reader is a running subscription with its sink.
type reader struct {
	*sink
	c transport.Consumer
	k *kit
}

// subscribe reads a place; what the sink saw broken fails the step at its end.
func (k *kit) subscribe(e transport.Endpoint, change ...func(*transport.Subscription, *sink)) *reader {
	k.Helper()
	s := &sink{k: k}
	sub := transport.Subscription{Endpoint: e, Consumer: "contract", Prefetch: 100, MaxBufferedBytes: 64 << 20}
	for _, f := range change {
		f(&sub, s)
	}
	ctx, cancel := k.bounded()
	defer cancel()
	c, err := k.s.Adapter.Subscribe(ctx, sub, s)
	if err != nil {
		k.Fatalf("subscribe: %v", err)
	}
	r := &reader{s, c, k}
	k.Cleanup(func() {
		r.close()
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, b := range slices.Compact(s.broken) {
			k.Errorf("the sink saw %s", b)
		}
	})
	return r
}

// close ends the subscription and leaves unsettled what is unsettled.
func (r *reader) close() {
	r.k.Helper()
	ctx, cancel := r.k.bounded()
	defer cancel()
	if err := r.c.Close(ctx); err != nil {
		r.k.Errorf("close the consumer: %v", err)
	}
}

// settle waits for the answer.
func (r *reader) settle(d transport.Delivery, v transport.Settlement) messaging.SettlementResult {
	r.k.Helper()
	return r.begin(d, v)()
}

// begin settles; the function it gives waits for the answer.
func (r *reader) begin(d transport.Delivery, v transport.Settlement) func() messaging.SettlementResult {
	got := make(chan messaging.SettlementResult, 2)
	r.c.Settle(d, v, func(res messaging.SettlementResult) { got <- res })
	return func() messaging.SettlementResult {
		r.k.Helper()
		ctx, cancel := r.k.bounded()
		defer cancel()
		select {
		case res := <-got:
			if res.Status == 0 || res.Proof == 0 {
				r.k.Errorf("an incomplete settlement: %+v", res)
			}
			return res
		case <-ctx.Done():
			r.k.Fatalf("a settlement was never answered")
			return messaging.SettlementResult{}
		}
	}
}

// ack settles deliveries that have to be settled.
func (r *reader) ack(ds ...transport.Delivery) {
	r.k.Helper()
	for _, d := range ds {
		if res := r.settle(d, transport.Settlement{Verb: transport.Ack}); res.Status != messaging.Settled || res.Proof == messaging.ProofNone {
			r.k.Fatalf("ack: %v, %v", res.Status, res.Proof)
		}
	}
}

// next waits for a delivery of the message, the n-th from 1.
func (r *reader) next(m transport.Message, n int) transport.Delivery {
	r.k.Helper()
	r.k.eventually("the message is delivered", func() bool { return len(r.of(m)) >= n })
	return r.of(m)[n-1]
}
