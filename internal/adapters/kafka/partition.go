package kafka

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/backend-skeleton/relay/messaging"
	"github.com/backend-skeleton/relay/messaging/transport"
)

// maxBatchRecords bounds a batch of small messages.
const maxBatchRecords = 10_000

// partition is the queue of one partition and, while there is something in it, the
// goroutine that works it off: one batch at a time, the next when the former is
// resolved.
type partition struct {
	pub     *Publisher
	topic   *topic
	number  int32
	pending atomic.Int64          // queued items, to compare queues
	trouble atomic.Pointer[cause] // why the broker cannot be reached, while it cannot

	mu    sync.Mutex
	queue []*item
	busy  bool

	// The worker's own.
	at      position
	refused int64  // a producer id that the broker refused here, or noProducer
	buf     []byte // the batch under way
}

// add queues the items behind what is waiting.
func (p *partition) add(items []*item) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.pending.Add(int64(len(items)))
	p.queue = append(p.queue, items...)
	if !p.busy {
		p.busy = true
		p.pub.work.Go(p.run)
	}
}

// sweep drops what was resolved while it was queued, so that a partition that does
// not move holds no memory for it.
func (p *partition) sweep() {
	p.mu.Lock()
	defer p.mu.Unlock()
	kept := p.queue[:0]
	for _, it := range p.queue {
		if it.state.Load() == itemQueued {
			kept = append(kept, it)
		}
	}
	p.pending.Add(int64(len(kept) - len(p.queue)))
	clear(p.queue[len(kept):])
	p.queue = kept
}

func (p *partition) run() {
	for {
		items := p.take()
		if items == nil {
			return
		}
		p.buf = p.pub.buffers.get()
		p.resolve(items)
		p.pub.buffers.put(p.buf)
		p.buf = nil
	}
}

// take gives the next batch's items, in order: as many of whatever calls are waiting
// as the batch limit lets in. Nil means that the queue is empty and the worker ends.
func (p *partition) take() []*item {
	limit := p.topic.batchLimit()
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		if len(p.queue) == 0 {
			p.queue, p.busy = nil, false
			return nil
		}
		var taken []*item
		n, size := 0, batchOverhead
		for ; n < len(p.queue) && len(taken) < maxBatchRecords; n++ {
			it := p.queue[n]
			if len(taken) > 0 && size+it.size > limit {
				break
			}
			// The call's end goes first over its flag, then over its items: an item
			// taken under a lowered flag has no earlier one that was resolved as unsent.
			if it.call.over.Load() || !it.state.CompareAndSwap(itemQueued, itemTaken) {
				continue
			}
			taken = append(taken, it)
			size += it.size
		}
		p.pending.Add(int64(-n))
		rest := copy(p.queue, p.queue[n:])
		clear(p.queue[rest:])
		p.queue = p.queue[:rest]
		if len(taken) > 0 {
			return taken
		}
	}
}

// resolve brings every item to its end. A refused batch is tried again in smaller
// pieces, in order, each after the former, until single records are refused; so only
// the culprit is, and what follows it under its key is not sent.
func (p *partition) resolve(items []*item) {
	pieces := [][]*item{items}
	for len(pieces) > 0 {
		last := len(pieces) - 1
		piece := p.unblocked(pieces[last])
		pieces = pieces[:last]
		if len(piece) == 0 {
			continue
		}
		o := newAttempt(p, piece).run()
		switch {
		case o.split > 0:
			pieces = append(pieces, o.items[o.split:], o.items[:o.split])
		default:
			p.hand(o)
		}
	}
}

// unblocked rejects the items that stand behind a failure of their key in their call.
func (p *partition) unblocked(items []*item) []*item {
	kept := 0
	for _, it := range items {
		if it.call.isBlocked(it) {
			p.end(it, rejection(causePredecessor, false, 0))
			continue
		}
		items[kept] = it
		kept++
	}
	return items[:kept]
}

// hand gives every item of a resolved batch its result.
func (p *partition) hand(o outcome) {
	if o.stored {
		level, broker := p.topic.level(), p.pub.adapter.conf.Name
		for i, it := range o.items {
			offset := int64(-1)
			if o.offset >= 0 {
				offset = o.offset + int64(i)
			}
			p.end(it, confirmation(broker, p.topic.name, p.number, offset, level, o.writes))
		}
		return
	}
	for _, it := range o.items {
		it.call.block(it)
	}
	for _, it := range o.items {
		p.end(it, o.result)
	}
}

// end resolves a taken item.
func (p *partition) end(it *item, r messaging.PublishResult) {
	it.state.Store(itemDone)
	it.call.finish(it, r)
}

func (it *item) message() *transport.Message { return &it.call.ms[it.index] }

// leaveSession makes the next batch ask for another producer id.
func (p *partition) leaveSession() {
	p.refused, p.at = p.at.id, position{id: noProducer}
}

// encode writes the items as one batch at the partition's position.
func (p *partition) encode(items []*item) []byte {
	ms := make([]*transport.Message, len(items))
	for i, it := range items {
		ms[i] = it.message()
	}
	p.buf = appendBatch(p.buf[:0], p.at, time.Now(), ms)
	return p.buf
}
