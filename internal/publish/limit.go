package publish

import (
	"context"
	"sync"
	"time"
)

// limit is the caller's context with the deadline of one publish. It lives inside the publish, so that it costs no
// allocation until an adapter asks for its channel; whoever waits for the verdict ends it.
type limit struct {
	parent context.Context
	until  time.Time

	mu   sync.Mutex // guards what follows
	done chan struct{}
	err  error
}

// Deadline is the earlier one of the caller's and the publish's own.
func (l *limit) Deadline() (time.Time, bool) {
	if d, ok := l.parent.Deadline(); ok && d.Before(l.until) {
		return d, true
	}
	return l.until, true
}

// Done is closed when the publish ends, in whatever way.
func (l *limit) Done() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.done == nil {
		l.done = make(chan struct{})
		if l.err != nil {
			close(l.done)
		}
	}
	return l.done
}

// Err is nil until the publish ends.
func (l *limit) Err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}

// Value is the caller's.
func (l *limit) Value(key any) any { return l.parent.Value(key) }

// end ends it once; the first reason stays.
func (l *limit) end(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		return
	}
	l.err = err
	if l.done != nil {
		close(l.done)
	}
}
