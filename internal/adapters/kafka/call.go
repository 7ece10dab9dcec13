package kafka

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/backend-skeleton/relay/messaging"
	"github.com/backend-skeleton/relay/messaging/transport"
)

// call is one Publish on its way.
type call struct {
	pub      *Publisher
	settings settings
	ms       []transport.Message
	done     func(i int, r messaging.PublishResult)
	items    []item
	started  time.Time

	ctx  context.Context // ends when nothing of the call should be begun any more
	end  context.CancelFunc
	stop func() bool // keeps expire from running
	over atomic.Bool
	left atomic.Int64 // items that are not done

	failed  atomic.Bool // something is blocked
	mu      sync.Mutex
	blocked map[string]int // by key, the first message that is not known to be stored
	touched []*partition   // where items are queued
}

// item is one message of a call. Its state says who may resolve it: the end of the
// call's time may while it is queued, its partition's worker once it took it.
type item struct {
	call     *call
	index    int
	dest     *partition
	size     int
	admitted bool // holds a permit
	state    atomic.Uint32
}

const (
	itemNew uint32 = iota
	itemQueued
	itemTaken
	itemDone
)

// endMargin is how long before the caller's deadline what is not begun is given
// back, so that "not sent" arrives before the caller must call it ambiguous: a
// tenth of the time, at most this.
const endMargin = 100 * time.Millisecond

func newCall(p *Publisher, ms []transport.Message, done func(int, messaging.PublishResult)) *call {
	c := &call{pub: p, ms: ms, done: done, started: time.Now(), items: make([]item, len(ms))}
	for i := range c.items {
		c.items[i].call, c.items[i].index = c, i
	}
	return c
}

// begin starts the call's clock. The publisher counted it in.
func (c *call) begin(ctx context.Context) {
	c.left.Store(int64(len(c.items)))
	until := c.started.Add(c.settings.delivery) // every produce has a deadline
	if d, ok := ctx.Deadline(); ok {
		if d = d.Add(-min(endMargin, time.Until(d)/10)); d.Before(until) {
			until = d
		}
	} else {
		until = c.started.Add(c.settings.timeout)
	}
	c.ctx, c.end = context.WithDeadline(ctx, until)
	abort := context.AfterFunc(c.pub.ctx, c.end) // closing ends every call
	expire := context.AfterFunc(c.ctx, c.expire)
	c.stop = func() bool { abort(); return expire() }
}

// expire resolves what is still queued when the call's time is over. The flag goes
// up first and items go in order, so that no worker takes a later message of the
// call after an earlier one was resolved here.
func (c *call) expire() {
	c.over.Store(true)
	for i := range c.items {
		it := &c.items[i]
		if it.state.CompareAndSwap(itemQueued, itemDone) {
			c.finish(it, rejection(c.unbegun(it), false, 0))
		}
	}
	c.mu.Lock()
	touched := append([]*partition(nil), c.touched...)
	c.mu.Unlock()
	for _, p := range touched {
		p.sweep()
	}
}

// unbegun says why a queued message was not begun.
func (c *call) unbegun(it *item) *cause {
	if t := it.dest.trouble.Load(); t != nil && c.pub.ctx.Err() == nil {
		return t
	}
	return c.pub.untimely()
}

// touches remembers that items of the call are queued there.
func (c *call) touches(p *partition) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, t := range c.touched {
		if t == p {
			return
		}
	}
	c.touched = append(c.touched, p)
}

// block keeps later messages of the item's key in this call from being sent.
func (c *call) block(it *item) {
	m := it.message()
	if keyless(m) {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.blocked == nil {
		c.blocked = map[string]int{}
	}
	if first, ok := c.blocked[string(m.Key)]; !ok || it.index < first {
		c.blocked[string(m.Key)] = it.index
	}
	c.failed.Store(true)
}

// isBlocked tells whether an earlier message of the item's key failed.
func (c *call) isBlocked(it *item) bool {
	m := it.message()
	if !c.failed.Load() || keyless(m) {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	first, ok := c.blocked[string(m.Key)]
	return ok && first < it.index
}

// refuseFrom rejects every item from an index on that is in no queue.
func (c *call) refuseFrom(from int, why *cause) {
	for i := from; i < len(c.items); i++ {
		c.refuse(&c.items[i], why)
	}
}

// refuse rejects an item that is in no queue.
func (c *call) refuse(it *item, why *cause) {
	if it.state.CompareAndSwap(itemNew, itemDone) {
		c.finish(it, rejection(why, false, 0))
	}
}

// finish hands out a result; the item's state is done, so it happens once.
func (c *call) finish(it *item, r messaging.PublishResult) {
	r.Elapsed = time.Since(c.started)
	if it.admitted {
		r.Evidence.QueuedLocally = true
		c.pub.permits.Release(1)
	}
	c.done(it.index, r)
	if c.left.Add(-1) == 0 && c.stop != nil {
		c.stop()
		c.end()
		c.pub.work.Done()
	}
}
