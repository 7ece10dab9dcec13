package messaging

import "errors"

// Failure classifies what went wrong, in words that travel: it is stored on
// rows, counted and shown. Message is one of this project's own fixed texts with
// numbers at most; a library's text never gets in, since it may quote keys or
// payload. A *Failure is an error.
type Failure struct {
	Category Category
	// Code is UPPER_SNAKE, listed in docs/failure-codes.md, never renamed.
	Code string
	// Retryable tells whether the same message may succeed later unchanged.
	Retryable bool
	Message   string
	// ErrorType is the Go type of the underlying error, for diagnosis.
	ErrorType string

	cause error
}

// NewFailure makes a failure. Retryable follows from the category: outages,
// throttling, transient processing failures and ambiguity may pass; a broken
// setting, a missing right and a bad message do not.
func NewFailure(c Category, code, message string) *Failure {
	return &Failure{Category: c, Code: code, Retryable: c.Retryable(), Message: message}
}

// WithCause gives a copy that unwraps to err. The text of err stays out of the
// failure's own text.
func (f Failure) WithCause(err error) *Failure {
	f.cause = err
	return &f
}

// Error gives category, code and message.
func (f *Failure) Error() string {
	if f.Message == "" {
		return f.Category.String() + " " + f.Code
	}
	return f.Category.String() + " " + f.Code + ": " + f.Message
}

// Unwrap gives the cause, if there is one.
func (f *Failure) Unwrap() error { return f.cause }

// Retryable tells whether a failure of the category may pass by itself.
func (c Category) Retryable() bool {
	switch c {
	case CategoryTransientInfrastructure, CategoryThrottled, CategoryProcessingTransient, CategoryAmbiguous:
		return true
	default:
		return false
	}
}

// failureIn finds the failure that decides in a chain of errors.
func failureIn(err error) (*Failure, bool) {
	var f *Failure
	if errors.As(err, &f) && f != nil {
		return f, true
	}
	return nil, false
}
