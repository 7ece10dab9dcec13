package messaging

import (
	"errors"
	"fmt"
)

// Err gives the error of a result, the same for every publisher: nil exactly for
// [Confirmed] at the required level or above; [ErrConfiguration] alone for a
// message that is confirmed below it, which is stored nevertheless; else exactly
// one of [ErrPublishRejected] and [ErrPublishAmbiguous], with the kind of the
// failure and with ended, the context's error where it ended. A result without
// verdict is ambiguous. A required level of zero asks for a confirmation alone.
func (r PublishResult) Err(d DestinationName, required ConfirmationLevel, ended error) error {
	if r.Completion == Confirmed && r.Evidence.Level >= required {
		return nil
	}
	e := &Error{Op: "publish", Destination: d, Failure: r.Failure}
	switch r.Completion {
	case Confirmed:
		e.Kind = ErrConfiguration
		e.Cause = fmt.Errorf("stored, but confirmed at %s where %s is required", r.Evidence.Level, required)
		return e
	case Rejected:
		e.Kind = ErrPublishRejected
	default:
		e.Kind = ErrPublishAmbiguous
	}
	kind := r.Failure.Kind()
	switch {
	case kind != nil && ended != nil:
		e.Cause = fmt.Errorf("%w: %w", kind, ended)
	case kind != nil:
		e.Cause = kind
	default:
		e.Cause = ended
	}
	return e
}

// kindOfCode holds the codes whose category alone does not tell the kind. A code
// with a nil kind has none beside rejected or ambiguous.
var kindOfCode = map[string]error{
	CodeTooLarge:              ErrTooLarge,
	CodeHeaderRejected:        ErrHeaderRejected,
	CodeSerialization:         ErrSerialization,
	CodeUnroutable:            ErrRouting,
	CodeNacked:                nil,
	CodeNotSent:               nil,
	CodePredecessorNotStored:  nil,
	CodeClosed:                ErrClosed,
	CodeCapabilityUnavailable: ErrCapabilityUnavailable,
	CodeMalformedPayload:      ErrSerialization,
	CodeDuplicateKey:          ErrSerialization,
	CodeUnknownField:          ErrSerialization,
	CodePayloadTooDeep:        ErrSerialization,
	CodeSchemaViolation:       ErrSchemaIncompatible,
	CodeSchemaUnknown:         ErrSchemaIncompatible,
	CodeUnknownTopic:          ErrTopology,
	CodeUnknownExchange:       ErrTopology,
	CodeConfirmTimeout:        ErrPublishTimeout,
	CodeConnectionLost:        ErrBrokerUnavailable,
	CodeChannelClosed:         ErrBrokerUnavailable,
}

var kindOfCategory = map[Category]error{
	CategoryTransientInfrastructure: ErrBrokerUnavailable,
	CategoryThrottled:               ErrBackpressure,
	CategoryDeserialization:         ErrSerialization,
	CategoryAuthentication:          ErrAuthentication,
	CategoryAuthorization:           ErrAuthorization,
	CategoryConfiguration:           ErrConfiguration,
	CategoryValidation:              ErrValidation,
}

// Kind gives the one error kind of a failure, nil where it has none. It works on
// a nil failure.
func (f *Failure) Kind() error {
	if f == nil {
		return nil
	}
	if kind, known := kindOfCode[f.Code]; known {
		return kind
	}
	return kindOfCategory[f.Category]
}

// RejectedLocally is the result of a publish that was refused before anything
// was handed to an adapter: the error of a check as evidence.
func RejectedLocally(err error) PublishResult {
	f, ok := failureIn(err)
	if !ok {
		f = failureOfCheck(err)
	}
	return PublishResult{
		Completion: Rejected,
		Evidence:   Evidence{Transmission: NotTransmitted, Level: LevelNone},
		Routing:    RoutingNotApplicable,
		Failure:    f,
	}
}

// failureOfCheck turns this package's own errors, whose texts quote no value,
// into a failure.
func failureOfCheck(err error) *Failure {
	code := CodeInvalidMessage
	switch {
	case errors.Is(err, ErrHeaderRejected):
		code = CodeHeaderRejected
	case errors.Is(err, ErrTooLarge):
		code = CodeTooLarge
	case errors.Is(err, ErrCapabilityUnavailable):
		code = CodeCapabilityUnavailable
	case errors.Is(err, ErrSerialization):
		code = CodeSerialization
	}
	var rule *ruleError
	message := "the message breaks a rule"
	if errors.As(err, &rule) {
		message = rule.Error()
	}
	return NewFailure(CategoryValidation, code, message)
}
