package cli

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
)

// ErrAskedLately says that a connection was not asked for, because the last one failed a moment ago. It wraps what that one
// met.
var ErrAskedLately = errors.New("the database was asked a moment ago")

// The pauses between two attempts to connect to a database that is away.
const (
	firstReconnect = 100 * time.Millisecond
	lastReconnect  = 3 * time.Second
)

// reconnects lets all who share a pool's settings ask a database that is away as one: one attempt at a time, with growing
// pauses. Others meanwhile learn at once what the last attempt met. It is asked by the driver about every connection, and
// does nothing while they succeed.
type reconnects struct {
	mu       sync.Mutex // guards what follows
	failures int        // in a row
	next     time.Time  // no attempt before
	last     error
}

// share makes the settings' connections go through r.
func (r *reconnects) share(c *pgx.ConnConfig) {
	c.Tracer = r
	dial := c.DialFunc
	c.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
		if refusal, ok := ctx.Value(refusalKey{}).(error); ok {
			return nil, refusal
		}
		return dial(ctx, network, addr)
	}
}

type refusalKey struct{}

// TraceConnectStart decides whether this attempt is made.
func (r *reconnects) TraceConnectStart(ctx context.Context, _ pgx.TraceConnectStartData) context.Context {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	switch {
	case r.failures == 0:
		return ctx
	case now.Before(r.next):
		return context.WithValue(ctx, refusalKey{}, fmt.Errorf("%w: %w", ErrAskedLately, r.last))
	default:
		r.next = now.Add(r.pause()) // the others wait for what this one finds
		return ctx
	}
}

// TraceConnectEnd learns from an attempt that was made.
func (r *reconnects) TraceConnectEnd(ctx context.Context, data pgx.TraceConnectEndData) {
	if ctx.Value(refusalKey{}) != nil || errors.Is(data.Err, context.Canceled) {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if data.Err == nil {
		r.failures, r.last = 0, nil
		return
	}
	r.failures++
	r.next, r.last = time.Now().Add(r.pause()), data.Err
}

// pause before the next attempt.
func (r *reconnects) pause() time.Duration {
	return min(firstReconnect<<min(r.failures-1, 10), lastReconnect)
}

// TraceQueryStart is what the driver asks a tracer for; there is nothing to trace.
func (*reconnects) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	return ctx
}

// TraceQueryEnd is the same.
func (*reconnects) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}
