package rabbitmq

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// session is one connection from its handshake to its end. It is never revived:
// after it comes another one.
type session struct {
	conn    *amqp.Connection
	wire    *wire
	log     *slog.Logger
	changed func()        // called when blocked turns
	blocked atomic.Bool   // the broker asked to stop publishing
	ended   chan struct{} // closed when the connection is gone

	mu    sync.Mutex
	over  bool // no new task
	tasks sync.WaitGroup
}

func newSession(conn *amqp.Connection, w *wire, log *slog.Logger, changed func()) *session {
	s := &session{conn: conn, wire: w, log: log, changed: changed, ended: make(chan struct{})}
	blocks := conn.NotifyBlocked(make(chan amqp.Blocking, 8))
	closes := conn.NotifyClose(make(chan *amqp.Error, 1))
	go s.watch(blocks, closes)
	return s
}

// watch follows the connection until it is gone.
func (s *session) watch(blocks chan amqp.Blocking, closes chan *amqp.Error) {
	defer close(s.ended)
	for {
		select {
		case b, ok := <-blocks:
			if !ok {
				blocks = nil
				continue
			}
			s.blocked.Store(b.Active)
			if b.Active {
				s.log.Warn("the broker blocks the connection: nothing is sent until it lifts the alarm", "reason", b.Reason)
			} else {
				s.log.Info("the broker lets the connection go on")
			}
			s.changed()
		case end := <-closes:
			if end != nil { // nil where this side said goodbye
				s.log.Warn("connection lost", "reply_code", end.Code)
			}
			s.drop()
			return
		}
	}
}

// gone tells whether the connection is over.
func (s *session) gone() bool {
	select {
	case <-s.ended:
		return true
	default:
		return s.conn.IsClosed()
	}
}

// frameSize is the size agreed with the broker, zero for no limit.
func (s *session) frameSize() int { return s.conn.Config.FrameSize }

// drop ends the connection at once, without a word to the broker.
func (s *session) drop() { _ = s.wire.Close() }

// do runs a call that waits for the broker's answer, and gives up waiting when
// ctx ends: the library's calls know no context. An abandoned call ends with the
// connection at the latest; finish waits for it.
func (s *session) do(ctx context.Context, call func() error) error {
	s.mu.Lock()
	if s.over {
		s.mu.Unlock()
		return amqp.ErrClosed
	}
	s.tasks.Add(1)
	s.mu.Unlock()
	result := make(chan error, 1)
	go func() {
		defer s.tasks.Done()
		result <- call()
	}()
	select {
	case err := <-result:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// bid runs a call in the background and drops the connection if the broker does
// not answer within the time.
func (s *session) bid(patience time.Duration, call func() error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over {
		return
	}
	s.tasks.Add(1)
	go func() {
		defer s.tasks.Done()
		late := time.AfterFunc(patience, s.drop)
		defer late.Stop()
		_ = call()
	}()
}

// end says goodbye for at most the given time, then drops the connection.
func (s *session) end(patience time.Duration) {
	if patience > 0 {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		_ = s.do(ctx, func() error { return s.conn.CloseDeadline(time.Now().Add(patience)) })
	}
	s.drop()
}

// finish waits until nothing of the session runs any more. The connection must be
// on its way out.
func (s *session) finish() {
	s.mu.Lock()
	s.over = true
	s.mu.Unlock()
	<-s.ended
	s.tasks.Wait()
	<-s.wire.done
}
