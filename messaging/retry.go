package messaging

import "time"

// RetryPolicy is what happens after a failure that may pass. The zero value never
// tries again.
type RetryPolicy struct {
	Mode Mode
	// MaxAttempts counts calls of the handler, the first included; 0 is 1.
	MaxAttempts int
	// InitialDelay is the wait before the second attempt, MaxDelay the longest one.
	InitialDelay, MaxDelay time.Duration
	// Multiplier is the growth from attempt to attempt; below 1 is 1.
	Multiplier float64
	// Jitter is the part of a wait that is random, from 0 to 1.
	Jitter float64
	Impact Impact
	// Retryable are the categories that are tried again; nil is
	// TRANSIENT_INFRASTRUCTURE, THROTTLED and PROCESSING_TRANSIENT. NonRetryable
	// takes away from them.
	Retryable, NonRetryable []Category
}

// Mode is how the next attempt is waited for. Zero is unset and refused.
type Mode uint8

// The values of Mode.
const (
	ModeNone             Mode = iota + 1 // no second attempt
	ModeInline                           // in place, others overtake
	ModeBlocking                         // the whole consumer waits
	ModePausePartition                   // the ordering unit waits
	ModeRetryDestination                 // on a stage of the consumer's own, others overtake
	ModeBrokerDelayed                    // the broker counts and delays
)

var modeWords = words{"NONE", "INLINE", "BLOCKING", "PAUSE_PARTITION", "RETRY_DESTINATION", "BROKER_DELAYED"}

// ParseMode reads the contract's word.
func ParseMode(s string) (Mode, error) { return parseWord[Mode]("retry mode", modeWords, s) }

// String gives the contract's word, "UNSET" for zero.
func (m Mode) String() string { return modeWords.text(uint8(m)) }

// MarshalText gives the contract's word; zero is an [ErrValidation].
func (m Mode) MarshalText() ([]byte, error) { return modeWords.marshal("retry mode", uint8(m)) }

// UnmarshalText reads the contract's word.
func (m *Mode) UnmarshalText(b []byte) (err error) {
	*m, err = ParseMode(string(b))
	return err
}

// Impact is what a retry does to the order of messages. Zero is unset and refused.
type Impact uint8

// The values of Impact.
const (
	ImpactPreserve     Impact = iota + 1 // later messages of the ordering unit wait
	ImpactAllowReorder                   // later messages overtake
)

var impactWords = words{"PRESERVE", "ALLOW_REORDER"}

// ParseImpact reads the contract's word.
func ParseImpact(s string) (Impact, error) {
	return parseWord[Impact]("ordering impact", impactWords, s)
}

// String gives the contract's word, "UNSET" for zero.
func (i Impact) String() string { return impactWords.text(uint8(i)) }

// MarshalText gives the contract's word; zero is an [ErrValidation].
func (i Impact) MarshalText() ([]byte, error) {
	return impactWords.marshal("ordering impact", uint8(i))
}

// UnmarshalText reads the contract's word.
func (i *Impact) UnmarshalText(b []byte) (err error) {
	*i, err = ParseImpact(string(b))
	return err
}
