package publish

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/backend-skeleton/relay/messaging"
	"github.com/backend-skeleton/relay/messaging/transport"
)

// batcher is a [messaging.BatchPublisher].
type batcher[T any] struct{ p *publisher[T] }

// NewBatch makes a batch publisher; it needs the grant BATCH_PUBLISH.
func NewBatch[T any](d *Destination, to messaging.Destination[T]) (messaging.BatchPublisher[T], error) {
	p, err := newPublisher(d, to)
	if err != nil {
		return nil, err
	}
	if !d.granted(GrantBatch) {
		return nil, ungranted(to.Name, GrantBatch)
	}
	return &batcher[T]{p: p}, nil
}

func ungranted(d messaging.DestinationName, grant string) error {
	return &messaging.Error{Op: "new publisher", Kind: messaging.ErrCapabilityUnavailable, Destination: d, Cause: cause("it needs the grant " + grant)}
}

// PublishBatch gives the result of each index. A batch over its limits is refused as a whole. Messages of one key keep
// their order: where the adapter does not see to it, they go one after the other, and what follows a message that was
// not confirmed is not sent.
func (b *batcher[T]) PublishBatch(ctx context.Context, es []messaging.Envelope[T], o *messaging.PublishOptions) ([]messaging.PublishResult, error) {
	d := b.p.d
	if most := cmp.Or(d.BatchMessages, 500); len(es) > most {
		return b.refuseAll(ctx, es, tooMany(fmt.Sprintf("the batch has %d messages, the limit is %d", len(es), most)))
	}
	if !d.Broker.enter(ctx) {
		return b.refuseAll(ctx, es, errClosed)
	}
	defer d.Broker.exit()
	shots, size := make([]*shot[T], len(es)), 0
	errs := make([]error, len(es))
	timeout := time.Duration(0)
	for i := range es {
		shots[i] = &shot[T]{e: es[i]}
		r, err := b.p.prepare(ctx, shots[i], o, request{})
		timeout, errs[i] = r.timeout, err
		size += len(shots[i].message[0].Value)
	}
	if most := cmp.Or(d.BatchBytes, 4<<20); size > most {
		return b.refuseAll(ctx, es, tooMany(fmt.Sprintf("the batch has %d bytes, the limit is %d", size, most)))
	}
	pending := make([]int, 0, len(es))
	for i, err := range errs {
		if err != nil {
			shots[i].refuse(err)
			continue
		}
		pending = append(pending, i)
	}
	b.send(ctx, shots, pending, timeout)
	return b.results(ctx, shots)
}

func tooMany(text string) error {
	return messaging.NewFailure(messaging.CategoryValidation, messaging.CodeTooLarge, text)
}

// send publishes in rounds: each is one call of the adapter with at most one message of a key where order is promised
// and the adapter keeps no prefix, and no more messages than there are places.
func (b *batcher[T]) send(ctx context.Context, shots []*shot[T], pending []int, timeout time.Duration) {
	d := b.p.d
	prefixer, ok := d.Broker.publisher.(transport.KeyPrefixer)
	prefix := ok && prefixer.KeyPrefix(d.Endpoint)
	deadline := time.Now().Add(timeout)
	broken := map[string]bool{}
	for len(pending) > 0 {
		var round, later []int
		inRound := map[string]bool{}
		for _, i := range pending {
			key := b.key(shots[i])
			switch {
			case key != "" && broken[key]:
				shots[i].refuse(errBehind)
			case len(round) == cap(d.Broker.slots) || key != "" && inRound[key] && !prefix:
				later = append(later, i)
				inRound[key] = true // what follows of the key waits too
			default:
				round, inRound[key] = append(round, i), true
			}
		}
		b.round(ctx, shots, round, time.Until(deadline))
		for _, i := range round {
			if key := b.key(shots[i]); key != "" && shots[i].result.Completion != messaging.Confirmed {
				broken[key] = true
			}
		}
		pending = later
	}
}

// key is what orders a message, "" where nothing does.
func (b *batcher[T]) key(s *shot[T]) string {
	if b.p.d.Ordered {
		return s.e.OrderingKey
	}
	return ""
}

// round is one call of the adapter.
func (b *batcher[T]) round(ctx context.Context, shots []*shot[T], round []int, left time.Duration) {
	if len(round) == 0 {
		return
	}
	d := b.p.d
	err := error(errNotSent)
	if left > 0 {
		err = d.admit(ctx, len(round), left)
	}
	if err != nil {
		for _, i := range round {
			shots[i].refuse(err)
		}
		return
	}
	g := &group[T]{shots: make([]*shot[T], len(round))}
	g.to, g.out, g.messages = d.Endpoint, g, make([]transport.Message, len(round))
	for n, i := range round {
		g.shots[n], g.messages[n] = shots[i], shots[i].message[0]
		shots[i].step(QueuedLocally)
		shots[i].step(Transmitting)
	}
	g.do(ctx, d.Broker.publisher, left)
}

// group is one call of the adapter with several messages.
type group[T any] struct {
	run
	results sync.Mutex // verdicts come from several goroutines
	shots   []*shot[T]
}

func (g *group[T]) verdict(i int, r messaging.PublishResult) {
	g.results.Lock()
	defer g.results.Unlock()
	g.shots[i].verdict(i, r)
}

func (g *group[T]) resolved(i int, r messaging.PublishResult, late bool) {
	g.shots[i].resolved(i, r, late)
}

func (b *batcher[T]) results(ctx context.Context, shots []*shot[T]) ([]messaging.PublishResult, error) {
	out, failed := make([]messaging.PublishResult, len(shots)), map[int]error{}
	for i, s := range shots {
		if err := s.finish(ctx); err != nil {
			failed[i] = err
		}
		out[i] = s.result
	}
	if len(failed) == 0 {
		return out, nil
	}
	return out, &messaging.BatchError{Items: failed}
}

func (b *batcher[T]) refuseAll(ctx context.Context, es []messaging.Envelope[T], err error) ([]messaging.PublishResult, error) {
	shots := make([]*shot[T], len(es))
	for i := range es {
		shots[i] = &shot[T]{e: es[i]}
		shots[i].d, shots[i].began = b.p.d, time.Now()
		shots[i].refuse(err)
	}
	return b.results(ctx, shots)
}
