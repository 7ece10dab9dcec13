package messagingtest

import (
	"context"
	"slices"
	"sync"

	"github.com/backend-skeleton/relay/messaging"
	"github.com/backend-skeleton/relay/messaging/transport"
)

// defaultPrefetch is the bound of a subscription that names none.
const defaultPrefetch = 16

// consumer is a running subscription. One goroutine makes all calls of the sink,
// another gives the answers to settlements, so that a sink may wait for them.
type consumer struct {
	b    *Broker
	sub  transport.Subscription
	sink transport.Sink
	quit chan struct{}
	work sync.WaitGroup

	// Under the broker's lock.
	groups     []*group
	holds      []*hold
	turn       int              // which hold is asked first
	lost       []transport.Unit // of which the sink does not know yet
	answers    []func()
	late       []func() // answers what was held back, at the end
	delivering bool
	stopped    bool
	closed     bool
}

// Subscribe reads the subscription's endpoint and its extra ones. It needs a
// broker that can settle in some way: by message, by batch or by position.
func (a *adapter) Subscribe(_ context.Context, s transport.Subscription, sink transport.Sink) (transport.Consumer, error) {
	a.b.mu.Lock()
	defer a.b.mu.Unlock()
	if err := a.refusal("subscribe", s.Endpoint); err != nil {
		return nil, err
	}
	able := a.b.able
	if !able.PerMessageSettlement && !able.BatchSettlement && !able.OrderedStream {
		return nil, &messaging.Error{Op: "subscribe", Kind: messaging.ErrCapabilityUnavailable, Destination: s.Endpoint.Name}
	}
	if s.Prefetch < 1 {
		s.Prefetch = defaultPrefetch
	}
	c := &consumer{b: a.b, sub: s, sink: sink, quit: make(chan struct{})}
	for _, e := range append([]transport.Endpoint{s.Endpoint}, s.Extra...) {
		g := a.b.groupOf(e, s)
		g.members = append(g.members, c)
		g.balance()
		c.groups = append(c.groups, g)
	}
	a.consumers = append(a.consumers, c)
	a.b.consumers[c] = struct{}{}
	a.b.tell()
	c.work.Go(c.deliverAll)
	c.work.Go(c.answerAll)
	return c, nil
}

// deliverAll makes the calls of the sink, one after the other, until the end.
func (c *consumer) deliverAll() {
	for {
		c.b.mu.Lock()
		if c.closed {
			c.b.mu.Unlock()
			return
		}
		do, changed := c.step(), c.b.wait()
		c.b.mu.Unlock()
		if do != nil {
			do()
			c.b.wake() // what the sink did may be what somebody waits for
			continue
		}
		select {
		case <-changed:
		case <-c.quit:
		}
	}
}

// step finds the next call of the sink; nil is none. The broker is locked.
func (c *consumer) step() func() {
	if lost := c.lost; len(lost) > 0 {
		c.lost = nil
		return func() { c.sink.Lost(lost) }
	}
	if leaving := c.leaving(); len(leaving) > 0 {
		return func() { c.revoke(leaving) }
	}
	if fresh := c.assign(); len(fresh) > 0 {
		return func() { c.sink.Assigned(fresh) }
	}
	if d := c.pick(); d != nil {
		c.delivering = true
		return func() {
			c.sink.Deliver(*d)
			c.b.mu.Lock()
			defer c.b.mu.Unlock()
			c.delivering = false
		}
	}
	return nil
}

func (c *consumer) leaving() (units []*hold) {
	for _, h := range c.holds {
		if h.leaving && !h.asked {
			h.asked = true
			units = append(units, h)
		}
	}
	return units
}

func (c *consumer) revoke(holds []*hold) {
	units := make([]transport.Unit, len(holds))
	for i, h := range holds {
		units[i] = h.unit
	}
	ctx, cancel := context.WithTimeout(context.Background(), c.b.settings.revokeWait)
	c.sink.Revoked(ctx, units)
	cancel()
	c.b.mu.Lock()
	defer c.b.mu.Unlock()
	for _, h := range holds {
		h.end(false)
	}
	c.b.tell()
}

// assign takes the units that are this consumer's and nobody's yet.
func (c *consumer) assign() (fresh []transport.Unit) {
	if c.stopped {
		return nil
	}
	for _, g := range c.groups {
		for i, cur := range g.cursors {
			if g.shared && c.hold(cur) != nil || !g.shared && (cur.owner != nil || g.target(i) != c) {
				continue
			}
			c.b.epoch++
			h := &hold{c: c, cur: cur, unit: transport.Unit{Name: cur.u.name, Epoch: c.b.epoch}, inHand: map[int]int64{}}
			c.holds = append(c.holds, h)
			if !g.shared {
				cur.owner = h
			}
			fresh = append(fresh, h.unit)
		}
	}
	if fresh != nil {
		c.b.tell()
	}
	return fresh
}

func (c *consumer) hold(cur *cursor) *hold {
	for _, h := range c.holds {
		if h.cur == cur {
			return h
		}
	}
	return nil
}

// pick takes the next message, from the units in turn.
func (c *consumer) pick() *transport.Delivery {
	if c.stopped {
		return nil
	}
	now := c.b.settings.clock.Now()
	for range c.holds {
		c.turn = (c.turn + 1) % len(c.holds)
		h := c.holds[c.turn]
		if h.paused || h.leaving || !c.room(h) {
			continue
		}
		offset, found := h.cur.take(now)
		if !found {
			continue
		}
		it, st := h.cur.u.items[offset], h.cur.state(offset)
		st.by = h
		h.inHand[offset] = int64(len(it.m.Value))
		h.bytes += int64(len(it.m.Value))
		d := &transport.Delivery{
			Message: clone(it.m), Unit: h.unit, Position: *it.position(), ReceivedAt: now, Tag: tag{h, offset},
		}
		if c.b.able.PerMessageSettlement { // who settles by position keeps no count
			d.Redelivered, d.Failed = st.redelivered, st.failed
		}
		c.b.delivered(c, h.cur.g.place)
		return d
	}
	return nil
}

// room tells whether another message may be in hand.
func (c *consumer) room(h *hold) bool {
	inHand, bytes := 0, int64(0)
	for _, other := range c.holds {
		if other == h || !h.cur.g.place.topic {
			inHand += len(other.inHand)
		}
		bytes += other.bytes
	}
	if c.sub.Strict && len(h.inHand) > 0 {
		return false
	}
	return inHand < c.sub.Prefetch && (c.sub.MaxBufferedBytes <= 0 || inHand == 0 || bytes < c.sub.MaxBufferedBytes)
}

// lose ends the units of a place, "" for all, as a connection does that breaks.
func (c *consumer) lose(place string) {
	for _, h := range slices.Clone(c.holds) {
		if place == "" || h.cur.g.place.name == place {
			if !h.asked { // it is being told already
				c.lost = append(c.lost, h.unit)
			}
			h.end(true)
		}
	}
}

// askBack asks for the units of a place.
func (c *consumer) askBack(place string) {
	for _, h := range c.holds {
		h.leaving = h.leaving || h.cur.g.place.name == place
	}
}

// Pause stops the units until they are resumed or their epoch ends.
func (c *consumer) Pause(us ...transport.Unit) { c.setPaused(true, us) }

// Resume goes on with the units.
func (c *consumer) Resume(us ...transport.Unit) { c.setPaused(false, us) }

func (c *consumer) setPaused(paused bool, us []transport.Unit) {
	c.b.mu.Lock()
	defer c.b.mu.Unlock()
	for _, h := range c.holds {
		if slices.Contains(us, h.unit) {
			h.paused = paused
		}
	}
	c.b.tell()
}

// Stop ends deliveries: none is made after it has returned without an error.
func (c *consumer) Stop(ctx context.Context) error {
	c.b.mu.Lock()
	c.stopped = true
	c.b.mu.Unlock()
	return c.b.Await(ctx, func() bool {
		c.b.mu.Lock()
		defer c.b.mu.Unlock()
		return !c.delivering
	})
}

// Close leaves unsettled what is unsettled: others get it.
func (c *consumer) Close(ctx context.Context) error {
	c.b.mu.Lock()
	if !c.closed {
		for _, l := range c.late {
			l()
		}
		c.closed = true
		for _, h := range slices.Clone(c.holds) {
			h.end(true)
		}
		for _, g := range c.groups {
			g.drop(c)
		}
		delete(c.b.consumers, c)
		close(c.quit)
		c.b.tell()
	}
	c.b.mu.Unlock()
	done := make(chan struct{})
	go func() {
		defer close(done)
		c.work.Wait()
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
