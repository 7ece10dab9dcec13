package publish

import (
	"context"
	"time"

	"github.com/backend-skeleton/relay/messaging"
	"github.com/backend-skeleton/relay/messaging/transport"
)

// flight is one message on its way: the call of the adapter, the state that it is in, and the verdict.
type flight struct {
	run
	d        *Destination
	machine  machine
	required messaging.ConfirmationLevel
	result   messaging.PublishResult
	began    time.Time
	// The backing of the run's messages, and of the usual message's headers.
	message [1]transport.Message
	headers [20]transport.Header
	arena   [512]byte
}

// send is the second half of the way, for one message that has its place: adapter, evidence, result, hooks.
func (f *flight) send(ctx context.Context, timeout time.Duration) {
	f.step(Transmitting)
	f.to, f.messages, f.out = f.d.Endpoint, f.message[:], f
	f.do(ctx, f.d.Broker.publisher, timeout)
}

// step goes on to the next state. A step that there is not is told, so that it is neither believed nor overlooked.
func (f *flight) step(s State) {
	from := f.machine.at
	if hook := f.d.Broker.hooks.Misstep; !f.machine.to(s) && hook != nil {
		hook(f.d.Name, from, s)
	}
}

// verdict is called once, before do returns.
func (f *flight) verdict(_ int, r messaging.PublishResult) {
	f.result = r
	if r.Completion == messaging.Confirmed && r.Evidence.Level < f.d.Required {
		f.d.weak.Store(true)
	}
}

// resolved frees the place. It may come long after the verdict.
func (f *flight) resolved(_ int, r messaging.PublishResult, late bool) {
	f.d.Broker.release(1)
	if hook := f.d.Broker.hooks.Late; late && hook != nil {
		hook(Event{Destination: f.d.Name, Broker: f.d.Broker.name, Stage: Transmitting, Result: r, Required: f.required})
	}
}

// skip lets the next message of a stream go: this one is not handed over.
func (f *flight) skip() {
	if f.handed == nil {
		return
	}
	after, handed := f.after, f.handed
	go func() {
		if after != nil {
			<-after
		}
		close(handed)
	}()
}

// refuse ends a message that was not handed to the adapter.
func (f *flight) refuse(err error) {
	f.result = messaging.RejectedLocally(err)
}

// finish tells the hooks and makes the error of the result.
func (f *flight) finish(ctx context.Context) error {
	for _, s := range steps(f.result) {
		f.step(s)
	}
	if f.result.Elapsed == 0 {
		f.result.Elapsed = time.Since(f.began)
	}
	if hook := f.d.Broker.hooks.Done; hook != nil {
		hook(Event{Destination: f.d.Name, Broker: f.d.Broker.name, Stage: f.machine.stage, Result: f.result, Required: f.required})
	}
	var ended error
	if f.result.Completion != messaging.Confirmed {
		ended = ctx.Err()
	}
	return f.result.Err(f.d.Name, f.required, ended)
}
