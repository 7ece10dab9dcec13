package platform

import (
	"errors"
	"fmt"

	"github.com/backend-skeleton/relay/internal/config"
	"github.com/backend-skeleton/relay/messaging"
)

// Finding is one thing that is wrong with the configuration.
type Finding struct {
	// Path is the YAML path; empty: the whole file.
	Path string
	// Line of the file, 0 where the value does not come from it.
	Line int
	// Message is the rule that is broken. It quotes no secret.
	Message string
}

// ConfigError is every finding of a configuration. It is an [messaging.ErrConfiguration].
type ConfigError struct {
	Findings []Finding
	text     string
}

// Error lists the findings, one a line.
func (e *ConfigError) Error() string { return e.text }

// Unwrap gives [messaging.ErrConfiguration].
func (e *ConfigError) Unwrap() error { return messaging.ErrConfiguration }

// configError makes the public form of the reader's error.
func configError(err error) error {
	var refused *config.Error
	if !errors.As(err, &refused) {
		return err
	}
	out := &ConfigError{text: refused.Error()}
	for _, f := range refused.Findings {
		out.Findings = append(out.Findings, Finding{Path: f.Path, Line: f.Line, Message: f.Message})
	}
	return out
}

func refused(op string, kind error, name messaging.DestinationName, format string, args ...any) error {
	return &messaging.Error{Op: op, Kind: kind, Destination: name, Cause: fmt.Errorf(format, args...)}
}
