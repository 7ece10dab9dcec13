package messaging

import "context"

// Handler handles one delivery and gives its verdict. It never sees an
// acknowledgement: the platform settles after the verdict. The context ends at
// the handler timeout or at the end of the drain.
type Handler[T any] interface {
	Handle(ctx context.Context, d Delivery[T]) Result
}

// HandlerFunc is a function as a [Handler].
type HandlerFunc[T any] func(ctx context.Context, d Delivery[T]) Result

// Handle calls f.
func (f HandlerFunc[T]) Handle(ctx context.Context, d Delivery[T]) Result { return f(ctx, d) }

// InboxBound is a handler that reserves every message in an inbox; an
// INBOX_TRANSACTIONAL consumer demands one under its own name.
type InboxBound interface {
	InboxConsumer() ConsumerName
}

// FromError makes a handler of a function that returns an error: nil is success;
// a [*Failure] in the chain decides, a retryable one by a retry and any other by
// a dead letter; every other error is a retry as PROCESSING_TRANSIENT.
func FromError[T any](f func(context.Context, Delivery[T]) error) Handler[T] {
	return HandlerFunc[T](func(ctx context.Context, d Delivery[T]) Result {
		err := f(ctx, d)
		if err == nil {
			return Success()
		}
		failure, ok := failureIn(err)
		switch {
		case !ok:
			return Retry(*NewFailure(CategoryProcessingTransient, CodeHandlerFailed, "the handler returned an error").WithCause(err))
		case failure.Retryable:
			return Retry(*failure)
		default:
			return DeadLetter(*failure)
		}
	})
}

// Result is a handler's verdict, made by [Success], [Retry], [DeadLetter] or
// [Reject]. The zero Result is no verdict: a failed attempt with the code
// NO_VERDICT, never an acknowledgement.
type Result struct {
	v Verdict
	f Failure
}

// Verdict is the word of a [Result]. Zero is no verdict.
type Verdict uint8

// The verdicts of a handler.
const (
	VerdictSuccess Verdict = iota + 1
	VerdictRetry
	VerdictDeadLetter
	VerdictReject
)

// String gives the contract's word, "UNSET" for no verdict.
func (v Verdict) String() string {
	return words{"SUCCESS", "RETRY", "DEAD_LETTER", "REJECT"}.text(uint8(v))
}

// Success settles the delivery.
func Success() Result { return Result{v: VerdictSuccess} }

// Retry asks for another attempt, as the destination's policy allows.
func Retry(f Failure) Result { return Result{v: VerdictRetry, f: f} }

// DeadLetter hands the message to the dead-letter queue; the delivery is settled
// once that publish is confirmed.
func DeadLetter(f Failure) Result { return Result{v: VerdictDeadLetter, f: f} }

// Reject discards the message. Only a destination with delivery AT_MOST_ONCE
// allows it; elsewhere the message is dead-lettered with the code
// REJECT_NOT_ALLOWED.
func Reject(f Failure) Result { return Result{v: VerdictReject, f: f} }

// Verdict gives the word of the result.
func (r Result) Verdict() Verdict { return r.v }

// Failure gives the failure of a result that is not a success; the zero Result
// gives NO_VERDICT.
func (r Result) Failure() Failure {
	if r.v == 0 {
		return *NewFailure(CategoryProcessingTransient, CodeNoVerdict, "the handler gave no verdict")
	}
	return r.f
}
