package messaging

import "errors"

// Kinds of errors, asked with [errors.Is]. A publish error is exactly one of
// [ErrPublishRejected] and [ErrPublishAmbiguous] and at most one cause kind
// besides. [ErrConfiguration] alone says that the message is confirmed, but below
// the required level: it is stored.
var (
	ErrPublishRejected  = errors.New("publish rejected")
	ErrPublishAmbiguous = errors.New("publish ambiguous")

	ErrConfiguration         = errors.New("configuration")
	ErrCapabilityUnavailable = errors.New("capability unavailable")
	ErrValidation            = errors.New("validation")
	ErrSerialization         = errors.New("serialization")
	ErrSchemaIncompatible    = errors.New("schema incompatible")
	ErrTooLarge              = errors.New("too large")
	ErrHeaderRejected        = errors.New("header rejected")
	ErrPublishTimeout        = errors.New("publish timeout")
	ErrRouting               = errors.New("routing")
	ErrAuthentication        = errors.New("authentication")
	ErrAuthorization         = errors.New("authorization")
	ErrBrokerUnavailable     = errors.New("broker unavailable")
	ErrBackpressure          = errors.New("backpressure")
	ErrTopology              = errors.New("topology")

	ErrConsumer                   = errors.New("consumer")
	ErrHandlerTimeout             = errors.New("handler timeout")
	ErrSettlement                 = errors.New("settlement")
	ErrSettlementUnknown          = errors.New("settlement unknown")
	ErrSettlementAlreadyCompleted = errors.New("settlement already completed")
	ErrRetryExhausted             = errors.New("retry exhausted")
	ErrDeadLetter                 = errors.New("dead letter")
	ErrRedrive                    = errors.New("redrive")
	ErrReplyTimeout               = errors.New("reply timeout")
	ErrUnitLost                   = errors.New("unit lost")
	ErrClosed                     = errors.New("closed")
)

// Error is the error of an operation of this platform: its kind, the logical
// destination, the failure and the cause, as far as they are known.
type Error struct {
	Op          string
	Kind        error
	Destination DestinationName
	Failure     *Failure
	Cause       error
}

// Error gives operation, destination, kind, failure and cause, in this order.
func (e *Error) Error() string {
	text := e.Op
	if e.Destination != "" {
		text += " to " + string(e.Destination)
	}
	for _, part := range e.Unwrap() {
		if text != "" {
			text += ": "
		}
		text += part.Error()
	}
	return text
}

// Unwrap gives kind, failure and cause.
func (e *Error) Unwrap() []error {
	parts := make([]error, 0, 3)
	if e.Kind != nil {
		parts = append(parts, e.Kind)
	}
	if e.Failure != nil {
		parts = append(parts, e.Failure)
	}
	if e.Cause != nil {
		parts = append(parts, e.Cause)
	}
	return parts
}

// ruleError says which rule a value breaks, and never quotes the value.
type ruleError struct {
	kind       error
	what, rule string
}

func (e *ruleError) Error() string {
	if e.what == "" {
		return e.kind.Error() + ": " + e.rule
	}
	return e.kind.Error() + ": " + e.what + " " + e.rule
}

func (e *ruleError) Unwrap() error { return e.kind }

func invalid(what, rule string) error {
	return &ruleError{kind: ErrValidation, what: what, rule: rule}
}

func headerRejected(name, rule string) error {
	what := ""
	if name != "" {
		what = "header " + name
	}
	return &ruleError{kind: ErrHeaderRejected, what: what, rule: rule}
}
