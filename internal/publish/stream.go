package publish

import (
	"context"
	"iter"
	"time"

	"github.com/backend-skeleton/relay/messaging"
)

// streamWindow is how many messages of one stream are on their way at most, so that a slow reader of the results holds
// the stream up instead of filling memory.
const streamWindow = 128

// answer is the verdict on one message of a stream.
type answer struct {
	result messaging.PublishResult
	err    error
}

// PublishSeq publishes in input order and yields in input order. The next message is read when the window has room; on
// a destination that is ordered by key, a message of a key waits for the verdict on the one before it, and is not sent
// if that one was not confirmed; after the reader got that failure, the key goes on, so whoever needs the order breaks.
func (p *publisher[T]) PublishSeq(ctx context.Context, in iter.Seq[messaging.Envelope[T]], o *messaging.PublishOptions) iter.Seq2[messaging.PublishResult, error] {
	return func(yield func(messaging.PublishResult, error) bool) {
		s := stream[T]{p: p, o: o, tails: map[string]chan answer{}}
		defer s.drain()
		for e := range in {
			for s.ready() || len(s.window) == streamWindow {
				a := s.oldest()
				if !yield(a.result, a.err) {
					return
				}
			}
			s.send(ctx, e)
		}
		for len(s.window) > 0 {
			a := s.oldest()
			if !yield(a.result, a.err) {
				return
			}
		}
	}
}

// stream holds the messages on their way, the oldest first. It belongs to the goroutine of the reader.
type stream[T any] struct {
	p      *publisher[T]
	o      *messaging.PublishOptions
	window []sent
	tails  map[string]chan answer // the last message of each key in the window
	last   <-chan struct{}        // closed when the last message was handed over
}

type sent struct {
	key    string
	answer chan answer // has the verdict; it holds one
}

// ready tells whether the oldest verdict is there.
func (s *stream[T]) ready() bool {
	return len(s.window) > 0 && len(s.window[0].answer) > 0
}

// oldest waits for the oldest verdict and takes it out.
func (s *stream[T]) oldest() answer {
	first := s.window[0]
	s.window = s.window[1:]
	a := <-first.answer
	if s.tails[first.key] == first.answer {
		delete(s.tails, first.key)
	}
	return a
}

// drain waits for what is on its way: a reader who stops leaves nothing behind.
func (s *stream[T]) drain() {
	for len(s.window) > 0 {
		s.oldest()
	}
}

func (s *stream[T]) send(ctx context.Context, e messaging.Envelope[T]) {
	one := sent{answer: make(chan answer, 1)}
	if s.p.d.Ordered {
		one.key = e.OrderingKey
	}
	if one.key != "" {
		if tail, waiting := s.tails[one.key]; waiting {
			a := <-tail
			tail <- a // it is yielded later
			if a.result.Completion != messaging.Confirmed {
				s.behind(ctx, one)
				return
			}
		}
		s.tails[one.key] = one.answer
	}
	handed := make(chan struct{})
	shot := &shot[T]{e: e}
	shot.after, shot.handed, s.last = s.last, handed, handed
	s.p.async(ctx, shot, s.o, func(r messaging.PublishResult, err error) { one.answer <- answer{r, err} })
	s.window = append(s.window, one) // not before: a codec that panics leaves nothing to wait for
}

// behind refuses a message whose predecessor was not stored.
func (s *stream[T]) behind(ctx context.Context, one sent) {
	shot := &shot[T]{}
	shot.d, shot.began = s.p.d, time.Now()
	shot.refuse(errBehind)
	err := shot.finish(ctx)
	one.answer <- answer{shot.result, err}
	s.tails[one.key] = one.answer
	s.window = append(s.window, one)
}

var errBehind = messaging.NewFailure(messaging.CategoryTransientInfrastructure, messaging.CodePredecessorNotStored,
	"an earlier message of the key was not confirmed")
