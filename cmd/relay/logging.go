package main

import (
	"io"
	"log/slog"

	"github.com/backend-skeleton/relay/internal/config"
)

// newLogger writes to w what observability.log-level lets through. Nothing that is logged holds a payload, a key, a
// message id or a secret.
func newLogger(w io.Writer, c config.Observability) *slog.Logger {
	var level slog.Level
	if err := level.UnmarshalText([]byte(c.LogLevel)); err != nil {
		level = slog.LevelInfo
	}
	o := &slog.HandlerOptions{Level: level}
	if c.LogFormat == "text" {
		return slog.New(slog.NewTextHandler(w, o))
	}
	return slog.New(slog.NewJSONHandler(w, o))
}
