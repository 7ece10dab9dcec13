package client

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/backend-skeleton/relay/client/internal/clientdb"
)

const (
	wakeEvery   = 5 * time.Millisecond // at most one notification per
	wakeTimeout = time.Second          // for one notification, waiting for a connection included
	wakeRest    = time.Second          // after one that failed
)

// Woken says that a transaction with messages has committed: relays are woken at once instead of by their next poll.
// It returns immediately and never fails; several calls within 5 ms become one notification, outside any transaction
// of the caller. Call it after COMMIT. Without Config.Wake it does nothing.
func (c *Client) Woken() {
	if c.wake != nil {
		c.wake.call()
	}
}

// waker sends coalesced notifications. A goroutine lives only while there is something to send.
type waker struct {
	pool   *pgxpool.Pool
	logger *slog.Logger
	closed chan struct{}
	sender sync.WaitGroup

	mu      sync.Mutex
	sending bool
	again   bool // a call came while one was being sent
	over    bool
	failing bool // only the sender's
}

func newWaker(pool *pgxpool.Pool, logger *slog.Logger) *waker {
	if logger == nil {
		logger = slog.Default()
	}
	return &waker{pool: pool, logger: logger, closed: make(chan struct{})}
}

func (w *waker) call() {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.over:
	case w.sending:
		w.again = true
	default:
		w.sending = true
		w.sender.Go(w.send)
	}
}

func (w *waker) close() {
	w.mu.Lock()
	if !w.over {
		w.over = true
		close(w.closed)
	}
	w.mu.Unlock()
	w.sender.Wait()
}

func (w *waker) send() {
	for more := true; more; {
		pause := time.NewTimer(w.notify())
		select {
		case <-pause.C:
		case <-w.closed:
			pause.Stop()
		}
		more = w.more()
	}
}

// more takes the calls of the meantime; with none the sender ends.
func (w *waker) more() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sending = w.again
	w.again = false
	return w.sending
}

// notify sends one notification and says how long to rest after it.
func (w *waker) notify() time.Duration {
	ctx, cancel := context.WithTimeout(context.Background(), wakeTimeout)
	defer cancel()
	err := clientdb.New(w.pool).RelaysWake(ctx)
	switch {
	case err != nil && !w.failing:
		w.logger.Warn("relays cannot be woken; they find new messages with their next poll", "error", err)
	case err == nil && w.failing:
		w.logger.Info("relays can be woken again")
	}
	w.failing = err != nil
	if err != nil {
		return wakeRest
	}
	return wakeEvery
}
