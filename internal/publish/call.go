package publish

import (
	"cmp"
	"context"
	"sync"
	"time"

	"github.com/backend-skeleton/relay/messaging"
	"github.com/backend-skeleton/relay/messaging/transport"
)

// Grace is what the adapter gets beyond the timeout to say what it knows of messages that it could not finish in
// time: that nothing of them was written, above all.
const Grace = 250 * time.Millisecond

// Call is one batch on its way.
type Call struct {
	// To is the destination's place on its broker.
	To transport.Endpoint
	// Messages in order.
	Messages []transport.Message
	// Timeout until the verdict; Grace is added. It must be positive.
	Timeout time.Duration
	// Verdict is called once per index, at the latest at the deadline, maybe from several goroutines. It must not block.
	Verdict func(i int, r messaging.PublishResult)
	// Resolved is called once per index when the adapter is done with the message, maybe long after the verdict. late
	// tells that the verdict had been given at the deadline. It must not block.
	Resolved func(i int, r messaging.PublishResult, late bool)
}

// outcome hears of the messages of a run, as the functions of a Call do.
type outcome interface {
	verdict(i int, r messaging.PublishResult)
	resolved(i int, r messaging.PublishResult, late bool)
}

func (c *Call) verdict(i int, r messaging.PublishResult)             { c.Verdict(i, r) }
func (c *Call) resolved(i int, r messaging.PublishResult, late bool) { c.Resolved(i, r, late) }

// Do publishes. It returns when every verdict was given, at the latest at the deadline or soon after ctx ends; the
// adapter may go on and reports to Resolved.
func Do(ctx context.Context, p transport.Publisher, c Call) {
	r := &run{to: c.To, messages: c.Messages, out: &c}
	r.do(ctx, p, c.Timeout)
}

// run is one call of an adapter with the verdicts on its messages.
type run struct {
	limit
	to       transport.Endpoint
	messages []transport.Message
	out      outcome
	start    time.Time
	all      chan struct{} // has a token once the last verdict is given
	// after, if set, is closed when the call before this one was handed over; handed, if set, is closed when this one was.
	after  <-chan struct{}
	handed chan<- struct{}

	mu    sync.Mutex // guards what follows
	timer *time.Timer
	grace bool    // the adapter's time is over
	given []bool  // its verdict
	heard []bool  // the adapter's answer
	one   [2]bool // the backing of both for one message
	open  int
}

func (r *run) do(ctx context.Context, p transport.Publisher, timeout time.Duration) {
	r.open, r.start = len(r.messages), time.Now()
	if r.open == 0 {
		return
	}
	if r.given, r.heard = r.one[:1], r.one[1:]; r.open > 1 {
		r.given, r.heard = make([]bool, r.open), make([]bool, r.open)
	}
	r.all = make(chan struct{}, 1)
	r.parent, r.until = ctx, r.start.Add(timeout)
	r.mu.Lock()
	r.timer = time.AfterFunc(timeout, r.tick)
	r.mu.Unlock()
	go r.publish(p)
	select {
	case <-r.all:
	case <-ctx.Done():
		r.over(ctx.Err())
		<-r.all
	}
	r.timer.Stop()
	r.end(context.Canceled) // nobody waits any more; contexts made of it end
}

// tick is the timer: first the deadline, then the end of the grace.
func (r *run) tick() {
	if !r.over(context.DeadlineExceeded) {
		r.expire()
	}
}

// over ends the time that the adapter has and begins the grace; false where it has begun already.
func (r *run) over(why error) bool {
	r.mu.Lock()
	first := !r.grace
	if first {
		r.grace = true
		r.timer.Reset(Grace)
	}
	r.mu.Unlock()
	if first {
		r.end(why)
	}
	return first
}

// publish hands over, after the call before it in a stream: what is handed over in order is written in order.
func (r *run) publish(p transport.Publisher) {
	if r.handed != nil {
		defer close(r.handed)
	}
	if r.after != nil {
		select {
		case <-r.after:
		case <-r.Done():
			for i := range r.messages {
				r.done(i, messaging.RejectedLocally(errNotSent))
			}
			return
		}
	}
	p.Publish(&r.limit, r.to, r.messages, r.done)
}

var errNotSent = messaging.NewFailure(messaging.CategoryTransientInfrastructure, messaging.CodeNotSent, "the call ended before the message was sent")

// done is the adapter's word on one message. Its first word counts: a second one, or one on a message that there is
// not, is a mistake of the adapter and changes nothing.
func (r *run) done(i int, res messaging.PublishResult) {
	if i < 0 || i >= len(r.messages) || !r.hear(i) {
		return
	}
	res = coherent(res)
	late := !r.give(i)
	if !late {
		r.out.verdict(i, res)
		r.settle()
	}
	r.out.resolved(i, res, late)
}

// hear is false where the adapter has answered already.
func (r *run) hear(i int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.heard[i] {
		return false
	}
	r.heard[i] = true
	return true
}

// give reserves the verdict on a message; it is false where it was given already.
func (r *run) give(i int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.given[i] {
		return false
	}
	r.given[i] = true
	return true
}

// settle counts a verdict that has been delivered.
func (r *run) settle() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.open--
	if r.open == 0 {
		r.all <- struct{}{}
	}
}

// expire gives the verdict on all messages without answer: they may be with the broker.
func (r *run) expire() {
	for i := range r.given {
		if !r.give(i) {
			continue
		}
		r.out.verdict(i, messaging.PublishResult{
			Completion: messaging.Ambiguous,
			Evidence:   messaging.Evidence{QueuedLocally: true, Transmission: messaging.MayHaveBeenTransmitted, Level: messaging.LevelNone},
			Routing:    messaging.RoutingUnknown,
			Attempts:   1,
			Elapsed:    time.Since(r.start),
			Failure:    messaging.NewFailure(messaging.CategoryAmbiguous, messaging.CodeConfirmTimeout, "the broker did not answer in time"),
		})
		r.settle()
	}
}

// coherent holds an adapter's word to what can be: a verdict that is none is ambiguous, a confirmed message that
// reached no queue is rejected, and a failure stands exactly where something failed.
func coherent(r messaging.PublishResult) messaging.PublishResult {
	if r.Completion == messaging.Confirmed && r.Routing == messaging.RoutingUnroutable {
		r.Completion = messaging.Rejected
		if r.Failure == nil {
			r.Failure = messaging.NewFailure(messaging.CategoryTransientInfrastructure, messaging.CodeUnroutable, "no queue took the message")
		}
	}
	switch r.Completion {
	case messaging.Confirmed:
		r.Failure = nil
		r.Evidence.BrokerAccepted, r.Evidence.Transmission = true, messaging.Transmitted
		return filled(r)
	case messaging.Rejected, messaging.Ambiguous:
	default:
		r.Completion = messaging.Ambiguous
	}
	if r.Failure == nil {
		category := messaging.CategoryAmbiguous
		if r.Completion == messaging.Rejected {
			category = messaging.CategoryTransientInfrastructure
		}
		r.Failure = messaging.NewFailure(category, messaging.CodeUnknownOutcome, "the adapter gave no reason")
	}
	return filled(r)
}

// filled puts the least that is known where an adapter said nothing: what it does not call proved is not proved.
func filled(r messaging.PublishResult) messaging.PublishResult {
	r.Evidence.Transmission = cmp.Or(r.Evidence.Transmission, messaging.MayHaveBeenTransmitted)
	r.Evidence.Level = cmp.Or(r.Evidence.Level, messaging.LevelNone)
	r.Routing = cmp.Or(r.Routing, messaging.RoutingUnknown)
	if r.Attempts == 0 && r.Evidence.Transmission != messaging.NotTransmitted {
		r.Attempts = 1
	}
	return r
}
