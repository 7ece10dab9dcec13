package publish

import (
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

// Do publishes. It returns when every verdict was given, at the latest at the deadline or soon after ctx ends; the
// adapter may go on and reports to Resolved.
func Do(ctx context.Context, p transport.Publisher, c Call) {
	r := &run{call: c, given: make([]bool, len(c.Messages)), open: len(c.Messages), all: make(chan struct{}), start: time.Now()}
	if r.open == 0 {
		return
	}
	limited, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	go func() {
		p.Publish(limited, c.To, c.Messages, r.done)
	}()
	select {
	case <-r.all:
		return
	case <-limited.Done():
	}
	grace := time.NewTimer(Grace)
	defer grace.Stop()
	select {
	case <-r.all:
	case <-grace.C:
		r.expire()
	}
}

type run struct {
	call  Call
	start time.Time
	all   chan struct{}

	mu    sync.Mutex // guards what follows
	given []bool
	open  int
}

// done is the adapter's word on one message.
func (r *run) done(i int, res messaging.PublishResult) {
	late := !r.give(i)
	if !late {
		r.call.Verdict(i, res)
		r.settle()
	}
	r.call.Resolved(i, res, late)
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
		close(r.all)
	}
}

// expire gives the verdict on all messages without answer: they may be with the broker.
func (r *run) expire() {
	for i := range r.given {
		if !r.give(i) {
			continue
		}
		r.call.Verdict(i, messaging.PublishResult{
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
