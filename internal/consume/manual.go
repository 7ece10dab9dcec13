package consume

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/backend-skeleton/relay/messaging"
)

// controller is a [messaging.SettlementController]. The first terminal call decides; a handler that returns without one
// has given no verdict.
type controller struct {
	k   *Consumer
	i   *item
	ctx context.Context // the handler's

	over chan struct{} // closed when the settlement is known

	mu     sync.Mutex // guards what follows
	closed bool
	given  bool
	early  bool // the dispatcher has the verdict before the handler returns
	result messaging.Result
	delay  time.Duration
	answer *messaging.SettlementResult
}

var _ messaging.SettlementController = (*controller)(nil)

func newController(k *Consumer, i *item, ctx context.Context) *controller { //nolint:revive // the handler's context is part of its state
	return &controller{k: k, i: i, ctx: ctx, over: make(chan struct{})}
}

// Ack settles the delivery.
func (c *controller) Ack() error { return c.give(messaging.Success(), 0) }

// Retry asks for another attempt.
func (c *controller) Retry(delay time.Duration, f messaging.Failure) error {
	if delay < 0 {
		return c.failed(messaging.ErrValidation, errors.New("a delay is not negative"))
	}
	return c.give(messaging.Retry(f), delay)
}

// DeadLetter hands over to the dead-letter queue.
func (c *controller) DeadLetter(f messaging.Failure) error {
	return c.give(messaging.DeadLetter(f), 0)
}

// Reject discards.
func (c *controller) Reject(f messaging.Failure) error { return c.give(messaging.Reject(f), 0) }

func (c *controller) give(r messaging.Result, delay time.Duration) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.given || c.closed {
		return c.failed(messaging.ErrSettlementAlreadyCompleted, nil)
	}
	c.given, c.result, c.delay = true, r, delay
	if c.ctx.Err() == nil { // after the timeout nothing begins before the handler has returned
		c.early = true
		v := c.k.judgeCall(c.ctx, c.i, r, false)
		v.wanted = delay
		c.k.box.post(func() { c.k.judgeEarly(c.i, v) })
	}
	return nil
}

// Wait waits for the settlement.
func (c *controller) Wait(ctx context.Context) (messaging.SettlementResult, error) {
	c.mu.Lock()
	given, early := c.given, c.early
	c.mu.Unlock()
	unknown := messaging.SettlementResult{Status: messaging.SettlementUnknown, Proof: messaging.ProofNone}
	if !given {
		return unknown, c.failed(messaging.ErrSettlement, errors.New("no terminal call was made"))
	}
	if !early {
		return unknown, c.failed(messaging.ErrSettlementUnknown, errors.New("the handler's time was over: it is settled when the handler has returned"))
	}
	select {
	case <-c.over:
		if c.answer.Status != messaging.Settled {
			return *c.answer, c.failed(messaging.ErrSettlementUnknown, nil)
		}
		return *c.answer, nil
	case <-ctx.Done():
		return unknown, c.failed(messaging.ErrSettlementUnknown, ctx.Err())
	}
}

// settled gives the answer to whoever waits; the first counts.
func (c *controller) settled(r messaging.SettlementResult) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.answer == nil {
		c.answer = &r
		close(c.over)
	}
}

// returned ends the time of terminal calls and gives the verdict.
func (c *controller) returned() messaging.Result {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	return c.result
}

// told says whether the dispatcher had the verdict before the handler returned.
func (c *controller) told() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.early
}

func (c *controller) wanted() time.Duration { return c.delay }

func (c *controller) failed(kind, cause error) error {
	return &messaging.Error{Op: "settle", Kind: kind, Destination: c.k.c.Endpoint.Name, Cause: cause}
}

// judgeEarly acts on a verdict whose handler still runs. What is tried again in place waits until it has returned.
func (k *Consumer) judgeEarly(i *item, v verdict) {
	pause, waits := k.judge(i, v)
	if !waits {
		return
	}
	i.pending = &pause
	i.control.settled(messaging.SettlementResult{
		Status: messaging.SettlementUnknown, Proof: messaging.ProofNone,
		Failure: messaging.NewFailure(messaging.CategoryProcessingTransient, messaging.CodeUnfinished, "the message is tried again here: there is nothing to settle yet"),
	})
}
