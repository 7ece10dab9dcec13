package messagingtest

import (
	"context"
	"fmt"

	"github.com/backend-skeleton/relay/messaging"
	"github.com/backend-skeleton/relay/messaging/transport"
)

// replyQueue takes answers until its context ends.
type replyQueue struct {
	address string
	waiting []transport.Delivery // under the broker's lock
}

// ReplyQueue opens a queue for answers; a publish to an endpoint whose Physical
// holds the address under "reply-to" reaches it.
func (a *adapter) ReplyQueue(ctx context.Context) (string, <-chan transport.Delivery, error) {
	a.b.mu.Lock()
	defer a.b.mu.Unlock()
	if a.closed || a.denied != "" {
		return "", nil, &messaging.Error{Op: "reply queue", Kind: messaging.ErrClosed}
	}
	a.b.epoch++
	q := &replyQueue{address: fmt.Sprintf("reply-%d", a.b.epoch)}
	a.b.replies[q.address] = q
	in := make(chan transport.Delivery)
	go a.b.pump(ctx, q, in)
	return q.address, in, nil
}

// pump hands answers over until ctx ends, and closes the queue then.
func (b *Broker) pump(ctx context.Context, q *replyQueue, in chan<- transport.Delivery) {
	defer close(in)
	for {
		b.mu.Lock()
		changed := b.wait()
		var next *transport.Delivery
		if len(q.waiting) > 0 {
			next = &q.waiting[0]
			q.waiting = q.waiting[1:]
		}
		b.mu.Unlock()
		if next != nil {
			select {
			case in <- *next:
				continue
			case <-ctx.Done():
			}
		}
		select {
		case <-changed:
		case <-ctx.Done():
			b.mu.Lock()
			delete(b.replies, q.address)
			b.mu.Unlock()
			return
		}
	}
}

// reply publishes to a reply queue; one that is gone is unroutable.
func (c *call) reply(address string, m transport.Message) *messaging.PublishResult {
	b := c.p.b
	q := b.replies[address]
	if q == nil {
		r := c.refused(messaging.CategoryTransientInfrastructure, messaging.CodeUnroutable, "returned: the reply queue is gone", messaging.Transmitted)
		r.Routing = messaging.RoutingUnroutable
		return r
	}
	at := &item{unit: &unit{name: address}}
	q.waiting = append(q.waiting, transport.Delivery{Message: clone(m), Position: *at.position(), ReceivedAt: b.settings.clock.Now()})
	b.tell()
	r := c.stored(&place{}, at)
	return &r
}
