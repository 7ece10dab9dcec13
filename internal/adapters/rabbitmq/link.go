package rabbitmq

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/backend-skeleton/relay/messaging"
)

// link keeps one connection to the broker. It dials one address at a time, with
// growing pauses, and closes what a failed attempt opened, so that a broker in
// trouble never meets more than one connection of this adapter.
type link struct {
	cfg     *Config
	log     *slog.Logger
	changed signal // session up or down, attempt failed, blocked, wire drained
	cancel  context.CancelFunc
	done    chan struct{}
	told    string // the last reason that was logged as a warning; run's own

	mu       sync.Mutex
	session  *session           // nil while there is none
	failure  *messaging.Failure // of the last attempt; nil while one runs, and before the first after a loss
	attempts uint64             // begun
	failed   uint64             // the last attempt that failed
	grace    time.Duration      // for the farewell
}

func newLink(c *Config) *link {
	ctx, cancel := context.WithCancel(context.Background())
	l := &link{cfg: c, log: c.Logger.With("broker", c.Name), cancel: cancel, done: make(chan struct{})}
	go l.run(ctx)
	return l
}

// steady is how long a connection must have lived to count as a success: one that
// ends at once must not be dialled again at once.
const steady = 10 * time.Second

func (l *link) run(ctx context.Context) {
	defer close(l.done)
	pause := pauses{initial: l.cfg.BackoffInitial, most: l.cfg.BackoffMax}
	seed := rand.IntN(len(l.cfg.Seeds))
	for ctx.Err() == nil {
		s := l.attempt(ctx, &seed)
		if s != nil {
			born := time.Now()
			l.serve(ctx, s)
			if time.Since(born) >= steady {
				pause.reset()
				continue
			}
			// Whoever publishes waits for the next attempt: the broker was there just now.
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause.next()):
		}
	}
}

// attempt tries every address once and gives the first connection.
func (l *link) attempt(ctx context.Context, seed *int) *session {
	l.mu.Lock()
	l.failure = nil
	l.attempts++
	l.mu.Unlock()
	var last *dialError
	for range l.cfg.Seeds {
		address := l.cfg.Seeds[*seed%len(l.cfg.Seeds)]
		*seed++
		s, err := dial(ctx, l.cfg, address, l.log, l.changed.fire)
		if err == nil {
			l.told = ""
			l.log.Info("connected", "address", address)
			return s
		}
		if ctx.Err() != nil {
			return nil
		}
		l.log.Debug("connect", "address", address, "failure", err.failure.Code, "reason", err.failure.Message)
		last = err
	}
	level := slog.LevelWarn
	if l.told == last.failure.Message {
		level = slog.LevelDebug // said already
	}
	l.told = last.failure.Message
	l.log.Log(ctx, level, "no connection", "failure", last.failure.Code, "reason", last.failure.Message)
	l.fail(last.failure)
	return nil
}

// serve offers the session until the connection or ctx ends.
func (l *link) serve(ctx context.Context, s *session) {
	l.mu.Lock()
	l.session = s
	l.mu.Unlock()
	l.changed.fire()
	select {
	case <-s.ended:
	case <-ctx.Done():
		l.mu.Lock()
		grace := l.grace
		l.mu.Unlock()
		s.end(grace)
	}
	l.mu.Lock()
	l.session = nil
	l.mu.Unlock()
	l.changed.fire()
	s.finish()
}

func (l *link) fail(f *messaging.Failure) {
	l.mu.Lock()
	l.failure = f
	l.failed = l.attempts
	l.mu.Unlock()
	l.changed.fire()
}

// state gives the session, or why there is none; both nil while an attempt runs.
func (l *link) state() (*session, *messaging.Failure) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.session, l.failure
}

// next waits for the session, or for the failure of an attempt; where the last
// one failed already it does not wait.
func (l *link) next(ctx context.Context) (*session, *messaging.Failure) {
	return l.await(ctx, 0)
}

// fresh is next for a probe: a failure counts only if its attempt began after the
// call.
func (l *link) fresh(ctx context.Context) (*session, *messaging.Failure) {
	l.mu.Lock()
	known := l.attempts
	l.mu.Unlock()
	return l.await(ctx, known+1)
}

func (l *link) await(ctx context.Context, since uint64) (*session, *messaging.Failure) {
	for {
		changed := l.changed.wait()
		l.mu.Lock()
		s, failure, failed := l.session, l.failure, l.failed
		l.mu.Unlock()
		switch {
		case s != nil && !s.gone():
			return s, nil
		case failure != nil && failed >= since:
			return nil, failure
		}
		select {
		case <-changed:
		case <-l.done:
			return nil, failClosed
		case <-ctx.Done():
			if failure != nil {
				return nil, failure
			}
			return nil, failUnreachable
		}
	}
}

// blocked tells whether the broker asked to stop publishing.
func (l *link) blocked() bool {
	s, _ := l.state()
	return s != nil && s.blocked.Load()
}

// close ends the connection, politely for at most the given time.
func (l *link) close(grace time.Duration) {
	l.mu.Lock()
	l.grace = grace
	l.mu.Unlock()
	l.cancel()
	<-l.done
}

// pauses grow from initial to most, with jitter so that a fleet does not dial in
// step.
type pauses struct{ initial, most, last time.Duration }

func (p *pauses) next() time.Duration {
	if p.last == 0 {
		p.last = p.initial
	} else {
		p.last = min(p.most, 2*p.last)
	}
	return p.last/2 + rand.N(p.last/2+1)
}

func (p *pauses) reset() { p.last = 0 }
