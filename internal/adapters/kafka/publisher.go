package kafka

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/backend-skeleton/relay/messaging"
	"github.com/backend-skeleton/relay/messaging/transport"
)

// Publisher publishes under one producer session. It is safe for concurrent use.
type Publisher struct {
	adapter *Adapter
	session session
	permits *semaphore.Weighted // one for each unresolved message
	buffers buffers

	ctx    context.Context // ends when what is unresolved is given up
	cancel context.CancelFunc
	work   sync.WaitGroup // calls, partitions, requests

	mu         sync.Mutex
	closed     bool
	partitions map[string][]*partition // by topic and number
	senders    map[senderKey]*sender
}

type senderKey struct {
	node int32
	wait time.Duration
}

var (
	_ transport.Publisher   = (*Publisher)(nil)
	_ transport.KeyPrefixer = (*Publisher)(nil)
	_ transport.KeyPrefixer = (*Adapter)(nil)
)

func newPublisher(a *Adapter) *Publisher {
	p := &Publisher{
		adapter:    a,
		permits:    semaphore.NewWeighted(int64(a.conf.ProducerInFlight)),
		partitions: map[string][]*partition{},
		senders:    map[senderKey]*sender{},
	}
	p.session.adapter = a
	p.session.turn = make(chan struct{}, 1)
	p.ctx, p.cancel = context.WithCancel(context.Background())
	return p
}

// KeyPrefix holds for every topic: of one call's messages of one key, what is stored
// is a prefix in order. The key is the record key; the caller opens no second call
// for a key before the first is done.
func (*Publisher) KeyPrefix(transport.Endpoint) bool { return true }

// KeyPrefix says the same before there is a publisher.
func (*Adapter) KeyPrefix(transport.Endpoint) bool { return true }

// Publish takes the messages in and returns; it blocks only while the in-flight
// limit is used up, and not beyond ctx. What is not begun shortly before ctx ends is
// rejected as not sent, so that the caller learns it in time; what was begun is
// resolved later: with the broker's answer, or as ambiguous after the destination's
// delivery timeout. The messages' bytes must not change before they are done.
func (p *Publisher) Publish(ctx context.Context, to transport.Endpoint, ms []transport.Message, done func(i int, r messaging.PublishResult)) {
	if len(ms) == 0 {
		return
	}
	c := newCall(p, ms, done)
	s, err := settingsOf(to)
	if err != nil {
		c.refuseFrom(0, causeEndpoint)
		return
	}
	c.settings = s
	if !p.open() {
		c.refuseFrom(0, causeClosed)
		return
	}
	c.begin(ctx)
	t := p.adapter.topic(s.topic)
	if t == nil {
		c.refuseFrom(0, causeClosed)
		return
	}
	if leaders, ok := t.view(); ok {
		p.route(c, t, leaders)
		return
	}
	p.work.Go(func() { // not the caller's time: a topic that is not there yet holds up its own messages alone
		leaders, fault := t.ready(c.ctx)
		if fault != nil {
			c.refuseFrom(0, fault)
			return
		}
		p.route(c, t, leaders)
	})
}

// open counts a call in; the call leaves when all its messages are done.
func (p *Publisher) open() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return false
	}
	p.work.Add(1)
	return true
}

// route puts a call's messages into their partitions' queues, as far as the
// in-flight limit lets them.
func (p *Publisher) route(c *call, t *topic, leaders []int32) {
	parts := p.partitionsOf(t, len(leaders))
	var sticky *partition
	piece := max(p.adapter.conf.ProducerInFlight/2, 1) // so that a large call does not wait for an empty publisher
	routed := make(map[*partition][]*item, 1)
	for from := 0; from < len(c.items); from += piece {
		to := min(from+piece, len(c.items))
		if c.ctx.Err() != nil {
			c.refuseFrom(from, p.untimely())
			return
		}
		if p.permits.Acquire(c.ctx, int64(to-from)) != nil {
			c.refuseFrom(from, p.unadmitted())
			return
		}
		for i := from; i < to; i++ {
			it := &c.items[i]
			m := &c.ms[i]
			it.admitted = true
			if fault := localFault(m); fault != nil {
				c.block(it)
				c.refuse(it, fault)
				continue
			}
			dest := sticky
			if !keyless(m) {
				dest = parts[partitionOf(m.Key, len(parts))]
			} else if dest == nil {
				dest = leastBusy(parts, leaders)
				sticky = dest
			}
			it.size, it.dest = recordBytes(m), dest
			it.state.Store(itemQueued)
			routed[dest] = append(routed[dest], it)
		}
		for dest, items := range routed {
			c.touches(dest)
			dest.add(items)
			delete(routed, dest)
		}
		if c.over.Load() {
			c.expire() // it may have run before these were queued
		}
	}
}

// unadmitted says why a call found no room.
func (p *Publisher) unadmitted() *cause {
	if p.ctx.Err() != nil {
		return causeClosed
	}
	return causeBackpressure
}

// untimely says why a call's time is over.
func (p *Publisher) untimely() *cause {
	if p.ctx.Err() != nil {
		return causeClosed
	}
	return causeNotSent
}

// localFault finds what no broker needs to be asked about.
func localFault(m *transport.Message) *cause {
	switch {
	case !encodable(m):
		return causeHeader
	case recordBytes(m) > maxRecordBytes:
		return tooLargeCause(recordBytes(m), maxRecordBytes)
	}
	return nil
}

// leastBusy takes the shorter of two random queues, among partitions with a leader.
func leastBusy(parts []*partition, leaders []int32) *partition {
	pick := func() int {
		i := rand.IntN(len(parts))
		for n := 0; leaders[i] < 0 && n < len(parts); n++ {
			i = (i + 1) % len(parts)
		}
		return i
	}
	a, b := parts[pick()], parts[pick()]
	if b.pending.Load() < a.pending.Load() {
		return b
	}
	return a
}

// partitionsOf gives the queues of a topic, at least n of them.
func (p *Publisher) partitionsOf(t *topic, n int) []*partition {
	p.mu.Lock()
	defer p.mu.Unlock()
	parts := p.partitions[t.name]
	if len(parts) < n {
		grown := make([]*partition, n) // a new slice: callers hold the old one
		copy(grown, parts)
		for i := len(parts); i < n; i++ {
			grown[i] = &partition{pub: p, topic: t, number: int32(i), at: position{id: noProducer}, refused: noProducer}
		}
		parts = grown
		p.partitions[t.name] = parts
	}
	return parts[:n]
}

func (p *Publisher) sender(node int32, wait time.Duration) *sender {
	p.mu.Lock()
	defer p.mu.Unlock()
	key := senderKey{node, wait}
	s := p.senders[key]
	if s == nil {
		s = &sender{pub: p, node: node, wait: wait}
		p.senders[key] = s
	}
	return s
}

// Close refuses new calls and waits until everything is resolved. When ctx ends
// first, what is unresolved is given up: ambiguous where bytes may have left,
// rejected as CLOSED elsewhere; the error then is ctx's.
func (p *Publisher) Close(ctx context.Context) error {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	err := waitUntil(ctx, p.work.Wait)
	p.cancel()
	p.work.Wait()
	return err
}
