package config

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
)

// maxSecret is the most bytes that are read from a secret's file.
const maxSecret = 64 << 10

// Secret is a reference to a value that never stands in the file: env:NAME or file:PATH. It holds the reference, not
// the value: printing, logging or marshalling a Secret shows where the value comes from. A file is read again at each
// Resolve, so a rotated secret is used at the next connect, without restart.
type Secret struct {
	ref    string
	lookup func(name string) (string, bool)
	dir    string
}

// NewSecret makes a secret from env:NAME or file:PATH, with the process environment and the working directory.
func NewSecret(ref string) (Secret, error) {
	s := Secret{lookup: os.LookupEnv}
	err := s.parseText(ref)
	return s, err
}

// IsZero tells a secret that was never set.
func (s Secret) IsZero() bool { return s.ref == "" }

// String gives the reference, never the value.
func (s Secret) String() string { return s.ref }

// GoString gives the reference, never the value.
func (s Secret) GoString() string { return "config.Secret(" + s.ref + ")" }

// MarshalText gives the reference, never the value.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.ref), nil }

// LogValue gives the reference, never the value.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.ref) }

// Resolve fetches the value now. The error names the reference alone: a variable that is not set or empty, a file
// that cannot be read or is empty. One line break at the end of a file is not part of the secret.
func (s Secret) Resolve() (string, error) {
	kind, name, _ := strings.Cut(s.ref, ":")
	switch kind {
	case "env":
		value, ok := s.lookupEnv(name)
		if !ok {
			return "", fmt.Errorf("%s: the environment variable is not set", s.ref)
		}
		if value == "" {
			return "", fmt.Errorf("%s: the environment variable is empty", s.ref)
		}
		return value, nil
	case "file":
		return s.readFile(name)
	}
	return "", errors.New("no secret is configured")
}

func (s Secret) lookupEnv(name string) (string, bool) {
	if s.lookup == nil {
		return os.LookupEnv(name)
	}
	return s.lookup(name)
}

func (s Secret) readFile(name string) (string, error) {
	f, err := os.Open(resolvePath(s.dir, name))
	if err != nil {
		return "", fmt.Errorf("%s: %w", s.ref, withoutPath(err))
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxSecret+1))
	if err != nil {
		return "", fmt.Errorf("%s: %w", s.ref, withoutPath(err))
	}
	if len(data) > maxSecret {
		return "", fmt.Errorf("%s: the file is larger than %s", s.ref, Size(maxSecret))
	}
	value := strings.TrimSuffix(strings.TrimSuffix(string(data), "\n"), "\r")
	if value == "" {
		return "", fmt.Errorf("%s: the file is empty", s.ref)
	}
	return value, nil
}

func (s *Secret) parseText(text string) error {
	kind, name, ok := strings.Cut(text, ":")
	switch {
	case !ok || (kind != "env" && kind != "file"):
		return errors.New("a secret never stands in the file; write env:NAME or file:PATH")
	case name == "":
		return errors.New("the reference names nothing; write env:NAME or file:PATH")
	case kind == "env" && strings.ContainsAny(name, "= \t\r\n\x00"):
		return errors.New("env: is not followed by the name of an environment variable")
	}
	s.ref = text
	return nil
}

// resolvePath makes a path of the file absolute: relative ones start at the file's own directory.
func resolvePath(dir, name string) string {
	if filepath.IsAbs(name) || dir == "" {
		return name
	}
	return filepath.Join(dir, name)
}

// withoutPath drops operation and path of a file error, which the caller names already.
func withoutPath(err error) error {
	var pathErr *os.PathError
	if errors.As(err, &pathErr) {
		return pathErr.Err
	}
	return err
}
