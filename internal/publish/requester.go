package publish

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/backend-skeleton/relay/messaging"
	"github.com/backend-skeleton/relay/messaging/transport"
)

// Replies is the reply queue of a process and whoever waits at it. A reply names its request as its cause, and that
// alone matches it. Make it with [NewReplies]; Run owns its goroutine.
type Replies struct {
	address string
	in      <-chan transport.Delivery
	strange func(late bool)

	mu      sync.Mutex // guards what follows
	waiting map[messaging.MessageID]chan reply
	known   map[messaging.MessageID]struct{} // answered lately: a further reply is a duplicate
	order   []messaging.MessageID            // of known, the oldest first
	closed  bool
}

// rememberedReplies bounds how many answered requests are remembered, to tell a duplicate from a stranger.
const rememberedReplies = 4096

type reply struct {
	d      transport.Delivery
	fields transport.WireFields
	err    error
}

// NewReplies opens the reply queue, which ends with ctx. strange is told every reply that nobody waits for: a late one,
// or a duplicate of one that was taken.
func NewReplies(ctx context.Context, r transport.Replier, strange func(late bool)) (*Replies, error) {
	address, in, err := r.ReplyQueue(ctx)
	if err != nil {
		return nil, err
	}
	if strange == nil {
		strange = func(bool) {}
	}
	return &Replies{
		address: address, in: in, strange: strange,
		waiting: map[messaging.MessageID]chan reply{}, known: map[messaging.MessageID]struct{}{},
	}, nil
}

// Run hands replies over until the queue ends; then whoever waits gets ErrClosed.
func (r *Replies) Run() {
	for d := range r.in {
		fields, err := transport.DecodeHeaders(d.Header)
		if errors.Is(err, transport.ErrForeign) || fields.Causation.IsZero() {
			r.strange(true)
			continue
		}
		r.hand(fields.Causation.MessageID, reply{d: d, fields: fields, err: err})
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	for id, w := range r.waiting {
		close(w)
		delete(r.waiting, id)
	}
}

func (r *Replies) hand(request messaging.MessageID, answer reply) {
	r.mu.Lock()
	defer r.mu.Unlock()
	w, waited := r.waiting[request]
	if !waited {
		_, duplicate := r.known[request]
		r.strange(!duplicate)
		return
	}
	delete(r.waiting, request)
	w <- answer // it holds one
	r.known[request] = struct{}{}
	if r.order = append(r.order, request); len(r.order) > rememberedReplies {
		delete(r.known, r.order[0])
		r.order = r.order[1:]
	}
}

// expect registers a request; nil where the queue has ended.
func (r *Replies) expect(id messaging.MessageID) chan reply {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return nil
	}
	w := make(chan reply, 1)
	r.waiting[id] = w
	return w
}

func (r *Replies) forget(id messaging.MessageID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.waiting, id)
}

// requester is a [messaging.Requester].
type requester[Q, R any] struct {
	p       *publisher[Q]
	to      messaging.Destination[R]
	replies *Replies
}

// NewRequester makes a requester; it needs the grant REQUEST_REPLY.
func NewRequester[Q, R any](d *Destination, to messaging.Destination[Q], answer messaging.Destination[R], replies *Replies) (messaging.Requester[Q, R], error) {
	p, err := newPublisher(d, to)
	if err != nil {
		return nil, err
	}
	if !d.granted(GrantRequest) {
		return nil, ungranted(to.Name, GrantRequest)
	}
	return &requester[Q, R]{p: p, to: answer, replies: replies}, nil
}

// Request publishes and waits for the one reply.
func (q *requester[Q, R]) Request(ctx context.Context, e messaging.Envelope[Q]) (messaging.Delivery[R], error) {
	deadline, limited := ctx.Deadline()
	if !limited {
		return messaging.Delivery[R]{}, q.failed(messaging.ErrValidation, errors.New("a request needs a deadline"))
	}
	if e.ID.IsZero() {
		e.ID = messaging.NewMessageID()
	}
	w := q.replies.expect(e.ID)
	if w == nil {
		return messaging.Delivery[R]{}, q.failed(messaging.ErrClosed, nil)
	}
	defer q.replies.forget(e.ID)
	o := &messaging.PublishOptions{Timeout: min(max(time.Until(deadline), time.Millisecond), maxTimeout)}
	if t := q.p.d.Timeout; t > 0 {
		o.Timeout = min(o.Timeout, t)
	}
	// The reply may be there before the verdict; an ambiguous request may be answered all the same.
	result, sent := q.p.publish(ctx, e, o, request{replyTo: q.replies.address})
	if result.Completion == messaging.Rejected {
		return messaging.Delivery[R]{}, sent
	}
	select {
	case answer, ok := <-w:
		if !ok {
			return messaging.Delivery[R]{}, q.failed(messaging.ErrClosed, sent)
		}
		return q.open(ctx, answer)
	case <-ctx.Done():
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			return messaging.Delivery[R]{}, q.failed(messaging.ErrReplyTimeout, errors.Join(ctx.Err(), sent))
		}
		return messaging.Delivery[R]{}, &messaging.Error{Op: "request", Destination: q.p.d.Name, Cause: errors.Join(ctx.Err(), sent)}
	}
}

func (q *requester[Q, R]) failed(kind, why error) error {
	return &messaging.Error{Op: "request", Kind: kind, Destination: q.p.d.Name, Cause: why}
}

// open decodes a reply.
func (q *requester[Q, R]) open(ctx context.Context, a reply) (messaging.Delivery[R], error) {
	out := messaging.Delivery[R]{Hash: messaging.HashPayload(a.d.Value)}
	f := a.fields
	out.Envelope = messaging.Envelope[R]{
		ID: f.ID, Type: f.Type, Version: f.SchemaVersion, Producer: f.Producer, ProducedAt: f.ProducedAt, OccurredAt: f.OccurredAt,
		Correlation: f.Correlation, Causation: f.Causation, ContentType: f.ContentType, PartitionKey: f.PartitionKey,
		OrderingKey: f.OrderingKey, Tenant: f.Tenant, Trace: f.Trace, Headers: f.Headers,
	}
	out.Meta = messaging.DeliveryMetadata{
		Destination: q.to.Name, Attempt: 1, Position: &a.d.Position, Unit: a.d.Unit.Name, ReceivedAt: a.d.ReceivedAt, Redelivered: a.d.Redelivered,
	}
	switch {
	case a.err != nil:
		return out, q.failed(messaging.ErrValidation, a.err)
	case f.Type != q.to.Type || f.SchemaVersion != q.to.Version:
		return out, q.failed(messaging.ErrSchemaIncompatible, errors.New("the reply is of another type or version"))
	}
	codec := Codec(q.p.rules.Codecs, f.ContentType)
	if codec == nil {
		return out, q.failed(messaging.ErrSerialization, errors.New("no codec is registered for the reply's content type"))
	}
	if err := codec.Decode(ctx, f.Type, f.SchemaVersion, nil, a.d.Value, &out.Payload); err != nil {
		return out, q.failed(nil, serialization(err))
	}
	return out, nil
}
