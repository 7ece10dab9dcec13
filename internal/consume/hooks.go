package consume

import (
	"time"

	"github.com/backend-skeleton/relay/messaging"
)

// Hooks hear of a consumer; every one may be nil. They are called from the consumer's goroutines and must not block.
type Hooks struct {
	// Delivered is told every delivery.
	Delivered func(redelivered bool)
	// Handled is told every end of a handler: SUCCESS, the verdict, TIMEOUT or PANIC.
	Handled func(t messaging.MessageType, outcome string, took time.Duration)
	// Retried is told every further attempt that was decided.
	Retried func(mode messaging.Mode, f messaging.Failure)
	// HandedOver is told every publish to a stage, dead-letter queue or parking place: the message's outcome if it is
	// confirmed, and what the broker said.
	HandedOver func(to messaging.DestinationName, outcome string, completion messaging.Completion, f messaging.Failure)
	// Settled is told every settlement.
	Settled func(verb string, r messaging.SettlementResult, took time.Duration)
	// Ended is told once for each message: SUCCESS, DEAD_LETTERED, PARKED, MOVED, RETURNED, REJECTED, IGNORED, SKIPPED or
	// UNSETTLED. broken says that later messages of its key go on without it.
	Ended func(t messaging.MessageType, outcome string, broken bool)
	// Paused is told the begin and the end of a reason to pause.
	Paused func(reason string, paused bool)
	// Panicked is told what a handler panicked with, and where. It is for the log alone.
	Panicked func(t messaging.MessageType, value any, stack []byte)
	// Misstep is told a step between states that does not exist: a mistake of this package.
	Misstep func(from, next State)
}

// The outcomes of a message.
const (
	outcomeSuccess      = "SUCCESS"
	outcomeDeadLettered = "DEAD_LETTERED"
	outcomeParked       = "PARKED"
	outcomeMoved        = "MOVED"
	outcomeReturned     = "RETURNED"
	outcomeRejected     = "REJECTED"
	outcomeIgnored      = "IGNORED"
	outcomeSkipped      = "SKIPPED"
	outcomeUnsettled    = "UNSETTLED"
)

func (h *Hooks) delivered(redelivered bool) {
	if h.Delivered != nil {
		h.Delivered(redelivered)
	}
}

func (h *Hooks) handled(t messaging.MessageType, outcome string, took time.Duration) {
	if h.Handled != nil {
		h.Handled(t, outcome, took)
	}
}

func (h *Hooks) retried(m messaging.Mode, f messaging.Failure) {
	if h.Retried != nil {
		h.Retried(m, f)
	}
}

func (h *Hooks) handedOver(to messaging.DestinationName, outcome string, c messaging.Completion, f messaging.Failure) {
	if h.HandedOver != nil {
		h.HandedOver(to, outcome, c, f)
	}
}

func (h *Hooks) settled(verb string, r messaging.SettlementResult, took time.Duration) {
	if h.Settled != nil {
		h.Settled(verb, r, took)
	}
}

func (h *Hooks) ended(t messaging.MessageType, outcome string, broken bool) {
	if h.Ended != nil {
		h.Ended(t, outcome, broken)
	}
}

func (h *Hooks) paused(reason string, paused bool) {
	if h.Paused != nil {
		h.Paused(reason, paused)
	}
}

func (h *Hooks) panicked(t messaging.MessageType, value any, stack []byte) {
	if h.Panicked != nil {
		h.Panicked(t, value, stack)
	}
}

func (h *Hooks) misstep(from, next State) {
	if h.Misstep != nil {
		h.Misstep(from, next)
	}
}
