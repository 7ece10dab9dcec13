package messaging

import (
	"context"
	"time"
)

// ManualHandler handles one delivery and settles it itself. It needs the grant
// MANUAL_SETTLEMENT and is not possible with an inbox. A handler that returns
// without a terminal call is a failed attempt with the code NO_VERDICT.
type ManualHandler[T any] interface {
	HandleManual(ctx context.Context, d Delivery[T], s SettlementController)
}

// ManualHandlerFunc is a function as a [ManualHandler].
type ManualHandlerFunc[T any] func(ctx context.Context, d Delivery[T], s SettlementController)

// HandleManual calls f.
func (f ManualHandlerFunc[T]) HandleManual(ctx context.Context, d Delivery[T], s SettlementController) {
	f(ctx, d, s)
}

// SettlementController settles one delivery. Ack, Retry, DeadLetter and Reject are
// terminal: the first records the verdict and returns at once, every further one,
// and every one after the handler has returned, is an
// [ErrSettlementAlreadyCompleted]. It is safe for concurrent use.
type SettlementController interface {
	// Ack settles the delivery.
	Ack() error
	// Retry asks for another attempt after at least delay, as far as the policy
	// allows one; a negative delay is an [ErrValidation].
	Retry(delay time.Duration, f Failure) error
	// DeadLetter hands over to the dead-letter queue; the source is settled once that
	// publish is confirmed.
	DeadLetter(f Failure) error
	// Reject discards, see [Reject].
	Reject(f Failure) error
	// Wait gives what is known about the settlement. Before a terminal call it is an
	// [ErrSettlement]; a ctx that ends first gives UNKNOWN and an
	// [ErrSettlementUnknown], and so does a settlement that got no answer.
	Wait(ctx context.Context) (SettlementResult, error)
}

// BatchHandler handles several deliveries of one partition, or of one key where
// keys run in parallel, in their order. It needs the grant BATCH_CONSUME. An item
// that it does not name is unfinished: a failed attempt, never an acknowledgement.
type BatchHandler[T any] interface {
	HandleBatch(ctx context.Context, ds []Delivery[T]) []ItemResult
}

// BatchHandlerFunc is a function as a [BatchHandler].
type BatchHandlerFunc[T any] func(ctx context.Context, ds []Delivery[T]) []ItemResult

// HandleBatch calls f.
func (f BatchHandlerFunc[T]) HandleBatch(ctx context.Context, ds []Delivery[T]) []ItemResult {
	return f(ctx, ds)
}

// ItemResult is the verdict on one item of a batch. An index that does not exist,
// or that is named twice, is a [*BatchError], and the item stays unfinished.
type ItemResult struct {
	Index  int
	Result Result
}

// PauseController stops and resumes the intake of a consumer, or of some of its
// units. Pauses are a set of reasons: a unit runs when the last one is lifted.
// Both are idempotent; an empty reason is an [ErrValidation], a consumer that has
// ended an [ErrClosed].
type PauseController interface {
	Pause(reason string, units ...string) error
	Resume(reason string, units ...string) error
}
