package config

import (
	"errors"
	"net/url"
	"regexp"
	"strings"
)

// DatabaseURL is a PostgreSQL connection string (URL or key=value form). In the file it may stand as it is only
// without a password; with one it is a Secret reference, env:NAME or file:PATH.
type DatabaseURL struct {
	Secret
	plain string // only ever a text without password
}

var passwordWord = regexp.MustCompile(`(?i)(^|[\s?&])(ssl)?password\s*=`)

// NewDatabaseURL makes the reference to the value of an environment variable, read at each Resolve. The variable may
// itself hold env:NAME or file:PATH.
func NewDatabaseURL(value, variable string, lookup func(string) (string, bool)) (DatabaseURL, error) {
	u := DatabaseURL{Secret: Secret{lookup: lookup}}
	if isReference(value) {
		return u, u.Secret.parseText(value)
	}
	return u, u.Secret.parseText("env:" + variable)
}

// IsZero tells a URL that was never set.
func (u DatabaseURL) IsZero() bool { return u.plain == "" && u.Secret.IsZero() }

// Resolve fetches the connection string now; it may hold a password, so it never goes into a message.
func (u DatabaseURL) Resolve() (string, error) {
	if u.plain != "" {
		return u.plain, nil
	}
	return u.Secret.Resolve()
}

// String gives the reference or the text without password, as in the file.
func (u DatabaseURL) String() string {
	if u.plain != "" {
		return u.plain
	}
	return u.Secret.String()
}

// GoString gives what String gives.
func (u DatabaseURL) GoString() string { return "config.DatabaseURL(" + u.String() + ")" }

// MarshalText gives what String gives.
func (u DatabaseURL) MarshalText() ([]byte, error) { return []byte(u.String()), nil }

func (u *DatabaseURL) parseText(text string) error {
	if isReference(text) {
		return u.Secret.parseText(text)
	}
	if passwordWord.MatchString(text) {
		return errors.New("a password never stands in the file; write env:NAME or file:PATH for the whole URL")
	}
	if !strings.Contains(text, "://") {
		if !strings.Contains(text, "=") {
			return errors.New("is not a PostgreSQL URL; write postgres://user@host:5432/name, env:NAME or file:PATH")
		}
		u.plain = text
		return nil
	}
	parsed, err := url.Parse(text)
	if err != nil || (parsed.Scheme != "postgres" && parsed.Scheme != "postgresql") {
		return errors.New("is not a PostgreSQL URL; write postgres://user@host:5432/name, env:NAME or file:PATH")
	}
	if _, has := parsed.User.Password(); has {
		return errors.New("a password never stands in the file; write env:NAME or file:PATH for the whole URL")
	}
	u.plain = text
	return nil
}

func isReference(text string) bool {
	return strings.HasPrefix(text, "env:") || strings.HasPrefix(text, "file:")
}
