package kafka

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// libraryLog passes the library's events to slog: its fixed sentence and, of its
// values, only those that name a place. Errors and everything else stay out, since
// they may quote what travels. A sentence is repeated at most every ten seconds:
// the library writes one for each failed dial.
type libraryLog struct {
	log *slog.Logger

	mu   sync.Mutex
	last map[string]time.Time
}

const libraryLogEvery = 10 * time.Second

func newLibraryLog(l *slog.Logger, broker string) *libraryLog {
	return &libraryLog{log: l.With("broker", broker), last: map[string]time.Time{}}
}

// Level is what the library asks before it builds an entry.
func (l *libraryLog) Level() kgo.LogLevel {
	if l.log.Enabled(context.Background(), slog.LevelDebug) {
		return kgo.LogLevelInfo
	}
	return kgo.LogLevelWarn
}

// Log passes one entry on. The library's own severities are about its client, which
// this package drives itself: what it calls an error shows up as a result as well.
func (l *libraryLog) Log(level kgo.LogLevel, msg string, keyvals ...any) {
	if !l.due(msg) {
		return
	}
	to := slog.LevelDebug
	if level <= kgo.LogLevelWarn {
		to = slog.LevelWarn
	}
	attrs := make([]slog.Attr, 0, 4)
	for i := 0; i+1 < len(keyvals); i += 2 {
		switch k, _ := keyvals[i].(string); k {
		case "addr", "topic", "partition":
			attrs = append(attrs, slog.Any(k, keyvals[i+1]))
		case "broker":
			attrs = append(attrs, slog.Any("node", keyvals[i+1]))
		}
	}
	l.log.LogAttrs(context.Background(), to, "kafka client: "+msg, attrs...)
}

func (l *libraryLog) due(msg string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	if now.Sub(l.last[msg]) < libraryLogEvery {
		return false
	}
	if len(l.last) > 200 {
		clear(l.last)
	}
	l.last[msg] = now
	return true
}
