package consume

import (
	"context"
	"errors"
	"runtime/debug"
	"time"

	"github.com/backend-skeleton/relay/messaging"
	"github.com/backend-skeleton/relay/messaging/transport"
)

// job is one call of a handler: of one delivery, or of the deliveries of a batch. Once its end is handled it serves for
// another call.
type job struct {
	start func() // runs it

	items []*item
	l     *lane
	u     *unit
	began time.Time

	// Written by the handler's goroutine before it ends.
	verdicts []verdict // by item; not given where the goroutine did not come to it

	// The backing of a job of one delivery.
	item    [1]*item
	verdict [1]verdict
	in      Incoming
}

// newJob takes n deliveries out of a lane.
func (k *Consumer) newJob(l *lane, n int) *job {
	var j *job
	if last := len(k.spare) - 1; last >= 0 {
		j, k.spare = k.spare[last], k.spare[:last]
	} else {
		j = &job{}
		j.start = func() { k.run(j) }
	}
	j.l, j.u, j.began = l, l.queue.all()[0].u, time.Now()
	j.items, j.verdicts = append(j.item[:0], l.queue.all()[:n]...), j.verdict[:]
	if n > 1 {
		j.verdicts = make([]verdict, n)
	}
	l.queue.drop(n)
	return j
}

// freeJob takes back a job whose goroutine has told its end, which is the last that it does with it.
func (k *Consumer) freeJob(j *job) {
	*j = job{start: j.start, in: Incoming{box: j.in.box}}
	k.spare = append(k.spare, j)
}

// verdict is what is known about one delivery when its handler is done.
type verdict struct {
	given   bool
	result  messaging.Result
	failure messaging.Failure
	// outcome is set where no handler was called and the delivery is done: IGNORED or SKIPPED.
	outcome string
	free    bool // nothing of the message was tried
	doubt   bool // it may have had an effect
	early   bool // it could not be settled before its handler
	wanted  time.Duration
	decoded bool
}

// failed is a verdict of the runtime itself.
func failed(f *messaging.Failure) verdict {
	return verdict{given: true, result: messaging.Retry(*f), failure: *f}
}

// run calls the handler of a job in a goroutine of its own. Whatever happens in there is one failed attempt: a panic, or
// a goroutine that ends itself, leaves verdicts that are not given.
func (k *Consumer) run(j *job) {
	defer func() { k.box.put(event{kind: returned, job: j}) }()
	ctx, cancel := context.WithTimeoutCause(j.u.ctx, k.c.HandlerTimeout, messaging.ErrHandlerTimeout)
	defer cancel()
	if k.c.Routes[0].way == batched {
		k.runBatch(ctx, j)
		return
	}
	i := j.items[0]
	in := &j.in
	route, v := k.prepare(i, in)
	if !v.given {
		v = k.runOne(ctx, j, i, in, route)
	}
	if i.control == nil || !i.control.told() { // else the dispatcher has it already
		j.verdicts[0] = v
	}
}

func (k *Consumer) runOne(ctx context.Context, j *job, i *item, in *Incoming, route *Route) verdict {
	d, v := k.decode(ctx, in, route)
	if v.given {
		return v
	}
	if k.c.Delivery == messaging.AtMostOnce && !k.settleFirst(i) {
		return verdict{given: true, early: true}
	}
	result, panicked := k.call(ctx, j, i, route, d, in)
	return k.judgeCall(ctx, i, result, panicked)
}

// decode reads the payload. What the codec could not ask for is an outage, not a verdict on the message.
func (k *Consumer) decode(ctx context.Context, in *Incoming, route *Route) (d any, v verdict) {
	panicked := true
	defer func() {
		if !panicked {
			return
		}
		if value := recover(); value != nil {
			k.c.Hooks.panicked(in.Fields.Type, value, debug.Stack())
		}
		v = failed(messaging.NewFailure(messaging.CategoryDeserialization, messaging.CodeMalformedPayload, "the codec panicked"))
	}()
	d, err := route.read(ctx, in)
	panicked = false
	if err == nil {
		return d, verdict{}
	}
	var f *messaging.Failure
	switch {
	case errors.As(err, &f) && f.Category == messaging.CategoryTransientInfrastructure, ctx.Err() != nil:
		if f == nil {
			f = messaging.NewFailure(messaging.CategoryTransientInfrastructure, messaging.CodeUnfinished, "decoding took too long")
		}
		v = failed(f)
		v.free = true
	case errors.As(err, &f):
		v = failed(messaging.NewFailure(messaging.CategoryDeserialization, f.Code, f.Message).WithCause(err))
	default:
		v = failed(messaging.NewFailure(messaging.CategoryDeserialization, messaging.CodeMalformedPayload, "the payload cannot be decoded").WithCause(err))
	}
	return nil, v
}

// call calls the handler and isolates its panic.
func (k *Consumer) call(ctx context.Context, j *job, i *item, route *Route, d any, in *Incoming) (result messaging.Result, panicked bool) {
	began := time.Now()
	panicked = true
	defer func() {
		if !panicked {
			return
		}
		if value := recover(); value != nil {
			k.c.Hooks.panicked(in.Fields.Type, value, debug.Stack())
		} else { // the handler ended its goroutine: so ends this one, after it has told
			j.verdicts[0] = k.judgeCall(ctx, i, messaging.Result{}, true)
		}
		k.c.Hooks.handled(route.Type, "PANIC", time.Since(began))
	}()
	switch route.way {
	case typed:
		result = route.handle(ctx, d)
	case answered:
		result = route.answer(ctx, d, in)
	case manual:
		i.control = newController(k, i, ctx)
		route.manual(ctx, d, i.control)
		result = i.control.returned()
	}
	panicked = false
	outcome := result.Verdict().String()
	if timedOut(ctx) && result.Verdict() != messaging.VerdictSuccess {
		outcome = "TIMEOUT"
	}
	k.c.Hooks.handled(route.Type, outcome, time.Since(began))
	return result, false
}

// judgeCall reads a handler's verdict: a success is one however late it comes, anything else after the timeout says
// nothing about the effect.
func (k *Consumer) judgeCall(ctx context.Context, i *item, result messaging.Result, panicked bool) verdict {
	v := verdict{given: true, result: result, failure: result.Failure(), decoded: true}
	if i.control != nil {
		v.wanted = i.control.wanted()
	}
	switch {
	case result.Verdict() == messaging.VerdictSuccess:
	case panicked:
		v.result = messaging.Result{}
		v.failure = *messaging.NewFailure(messaging.CategoryProcessingTransient, messaging.CodeHandlerPanicked, "the handler panicked")
		v.doubt = true
	case timedOut(ctx):
		v.result = messaging.Result{}
		v.failure = *messaging.NewFailure(messaging.CategoryProcessingTransient, messaging.CodeHandlerTimeout, "the handler's time was over")
		v.doubt = true
	default:
		if v.failure.Category == 0 {
			v.failure.Category = messaging.CategoryProcessingTransient
		}
		if v.failure.Code == "" {
			v.failure.Code = messaging.CodeHandlerFailed
		}
		v.free = spendsNoAttempt(v.failure.Code)
		v.doubt = v.failure.Code == messaging.CodeCommitUnknown || v.failure.Category == messaging.CategoryAmbiguous || result.Verdict() == 0
	}
	return v
}

// spendsNoAttempt tells of failures of the inbox that say nothing about the message: the next try's reservation finds out.
func spendsNoAttempt(code string) bool {
	return code == messaging.CodeInboxBusy || code == messaging.CodeCommitUnknown || code == messaging.CodeDatabase
}

func timedOut(ctx context.Context) bool {
	return ctx.Err() != nil && errors.Is(context.Cause(ctx), messaging.ErrHandlerTimeout)
}

// settleFirst settles a delivery before its handler starts and waits for the answer.
func (k *Consumer) settleFirst(i *item) bool {
	answered := make(chan messaging.SettlementResult, 1)
	k.box.post(func() {
		i.early = true
		k.step(i, Decoding)
		k.step(i, SettlementSending)
		k.settle(i, transport.Settlement{Verb: transport.Ack}, func(r messaging.SettlementResult) { answered <- r })
	})
	select {
	case r := <-answered:
		return r.Status == messaging.Settled
	case <-i.u.ctx.Done():
		return false
	}
}
