package cli

import (
	"errors"
	"fmt"

	"github.com/backend-skeleton/relay/internal/config"
)

// Code is a process exit code.
type Code int

// The exit codes of all commands.
const (
	Done     Code = 0 // finished, or stopped by one SIGTERM or SIGINT
	Failed   Code = 1 // failed while it ran
	Usage    Code = 2 // unknown command or flag
	Refused  Code = 3 // the configuration is refused
	Database Code = 4 // the database cannot be reached, or its schema does not fit
	Broker   Code = 5 // a broker cannot be reached
	Found    Code = 6 // the command worked and found something
)

// Error is an error with the exit code that it means.
type Error struct {
	Code Code
	Err  error
}

// Error is the text of the cause.
func (e *Error) Error() string { return e.Err.Error() }

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.Err }

// Fail makes an error with its exit code.
func Fail(code Code, format string, args ...any) error {
	return &Error{Code: code, Err: fmt.Errorf(format, args...)}
}

// CodeOf is the exit code of an error: its own, Refused for a refused configuration, else Failed.
func CodeOf(err error) Code {
	var coded *Error
	var refused *config.Error
	switch {
	case err == nil:
		return Done
	case errors.As(err, &coded):
		return coded.Code
	case errors.As(err, &refused):
		return Refused
	}
	return Failed
}
