package observe

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// line is one kind of event: equal lines are summed up. Its fields are words of
// the contract, names of the configuration and fixed texts.
type line struct {
	level                                        slog.Level
	message                                      string
	broker, destination, outcome, category, code string
	operation, err, stage, consumer              string
}

// limiter writes the first event of a kind at once and further ones, summed up,
// at most once per interval.
type limiter struct {
	logger   *slog.Logger
	interval time.Duration

	mu    sync.Mutex // guards what follows
	kinds map[line]*held
}

type held struct {
	count int       // not yet written
	next  time.Time // no line before
}

// maxKinds bounds the memory that errors with ever new texts could take.
const maxKinds = 1000

func newLimiter(logger *slog.Logger, interval time.Duration) *limiter {
	return &limiter{logger: logger, interval: interval, kinds: make(map[line]*held)}
}

func (l *limiter) add(kind line, n int) {
	if n <= 0 || !l.logger.Enabled(context.Background(), kind.level) {
		return
	}
	now := time.Now()
	l.mu.Lock()
	h := l.kinds[kind]
	if h == nil {
		if len(l.kinds) >= maxKinds {
			l.forget(now)
		}
		h = &held{}
		l.kinds[kind] = h
	}
	h.count += n
	count := 0
	if !now.Before(h.next) {
		count, h.count, h.next = h.count, 0, now.Add(l.interval)
	}
	l.mu.Unlock()
	if count > 0 {
		l.write(kind, count)
	}
}

// forget makes room: first by the kinds whose time is over and that hold nothing,
// then by errors, whose texts alone can be without number.
func (l *limiter) forget(now time.Time) {
	for kind, h := range l.kinds {
		if h.count == 0 && now.After(h.next) {
			delete(l.kinds, kind)
		}
	}
	for kind := range l.kinds {
		if len(l.kinds) >= maxKinds && kind.err != "" {
			delete(l.kinds, kind)
		}
	}
}

// flush writes what is held and due, or with all set, everything.
func (l *limiter) flush(all bool) {
	now := time.Now()
	due := make(map[line]int)
	l.mu.Lock()
	for kind, h := range l.kinds {
		switch {
		case h.count > 0 && (all || !now.Before(h.next)):
			due[kind], h.count, h.next = h.count, 0, now.Add(l.interval)
		case h.count == 0 && now.After(h.next):
			delete(l.kinds, kind)
		}
	}
	l.mu.Unlock()
	for kind, count := range due {
		l.write(kind, count)
	}
}

func (l *limiter) write(kind line, count int) {
	attrs := make([]slog.Attr, 0, 8)
	for _, a := range []struct{ key, value string }{
		{"broker", kind.broker},
		{"consumer", kind.consumer},
		{"destination", kind.destination},
		{"outcome", kind.outcome},
		{"category", kind.category},
		{"code", kind.code},
		{"stage", kind.stage},
		{"operation", kind.operation},
		{"error", kind.err},
	} {
		if a.value != "" && a.value != noCategory {
			attrs = append(attrs, slog.String(a.key, a.value))
		}
	}
	attrs = append(attrs, slog.Int("count", count))
	l.logger.LogAttrs(context.Background(), kind.level, kind.message, attrs...)
}

// Run writes held log lines when their time has come, and all of them when ctx
// ends.
func (o *Observer) Run(ctx context.Context) {
	tick := time.NewTicker(o.log.interval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			o.log.flush(true)
			return
		case <-tick.C:
			o.log.flush(false)
		}
	}
}
