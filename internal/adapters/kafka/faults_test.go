package kafka

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// fault is what happens to a produce request on its way.
type fault int

const (
	faultNone   fault = iota
	faultUnsent       // the connection takes no byte
	faultHalf         // half of it leaves, then the connection ends: no broker processes it
	faultUnread       // it arrives, and the connection ends with the answer unread
	faultMute         // it arrives, and nothing ever comes back on this connection
	faultHeld         // it is kept on the way, and nothing comes back, until released
)

// wire dials with faults for produce requests. The zero value lets everything pass.
type wire struct {
	mu     sync.Mutex
	queue  []fault // for the next produce requests, one each
	always fault   // after those
	held   []heldWrite
	writes int // produce requests that met the wire

	down atomic.Bool // nobody answers the phone
	hit  chan fault  // gets each fault that took place, if anybody waits
}

type heldWrite struct {
	conn  net.Conn
	bytes []byte
}

func newWire() *wire { return &wire{hit: make(chan fault, 10_000)} }

func (w *wire) use(c *Config) { c.Dial = w.dial }

// next gives faults to the coming produce requests, one each.
func (w *wire) next(fs ...fault) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.queue = append(w.queue, fs...)
}

func (w *wire) set(f fault) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.always = f
}

func (w *wire) take() fault {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.writes++
	if len(w.queue) > 0 {
		f := w.queue[0]
		w.queue = w.queue[1:]
		return f
	}
	return w.always
}

func (w *wire) count() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.writes
}

func (w *wire) dial(ctx context.Context, network, address string) (net.Conn, error) {
	if w.down.Load() {
		return nil, &net.OpError{Op: "dial", Net: network, Err: syscall.ECONNREFUSED}
	}
	conn, err := new(net.Dialer).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	c := &wireConn{Conn: conn, wire: w}
	c.end.Store(&conn)
	return c, nil
}

// release lets the held requests arrive and reads the brokers' answers to them.
func (w *wire) release() error {
	w.mu.Lock()
	held := w.held
	w.held = nil
	w.mu.Unlock()
	for _, h := range held {
		if _, err := h.conn.Write(h.bytes); err != nil {
			return err
		}
		var size [4]byte
		if _, err := io.ReadFull(h.conn, size[:]); err != nil {
			return err
		}
		if _, err := io.CopyN(io.Discard, h.conn, int64(binary.BigEndian.Uint32(size[:]))); err != nil {
			return err
		}
		h.conn.Close()
	}
	return nil
}

type wireConn struct {
	net.Conn // as dialled
	wire     *wire
	now      atomic.Int32
	end      atomic.Pointer[net.Conn] // what the client talks to
}

func (c *wireConn) Close() error                       { return (*c.end.Load()).Close() }
func (c *wireConn) SetDeadline(t time.Time) error      { return (*c.end.Load()).SetDeadline(t) }
func (c *wireConn) SetReadDeadline(t time.Time) error  { return (*c.end.Load()).SetReadDeadline(t) }
func (c *wireConn) SetWriteDeadline(t time.Time) error { return (*c.end.Load()).SetWriteDeadline(t) }

// Write sees whole requests: the client writes each in one piece.
func (c *wireConn) Write(b []byte) (int, error) {
	if len(b) < 6 || binary.BigEndian.Uint16(b[4:]) != 0 {
		return c.Conn.Write(b)
	}
	f := c.wire.take()
	c.now.Store(int32(f))
	defer func() {
		if f != faultNone {
			select {
			case c.wire.hit <- f:
			default:
			}
		}
	}()
	switch f {
	case faultUnsent:
		c.Conn.Close()
		return 0, syscall.EPIPE
	case faultHalf:
		n, _ := c.Conn.Write(b[:len(b)/2])
		c.Conn.Close()
		return n, syscall.ECONNRESET
	case faultHeld:
		// The connection to the broker outlives the client's end of it.
		c.wire.mu.Lock()
		c.wire.held = append(c.wire.held, heldWrite{c.Conn, append([]byte(nil), b...)})
		c.wire.mu.Unlock()
		nobody, _ := net.Pipe()
		c.end.Store(&nobody)
		_ = c.Conn.SetDeadline(time.Time{})
		return len(b), nil
	}
	return c.Conn.Write(b)
}

func (c *wireConn) Read(b []byte) (int, error) {
	n, err := (*c.end.Load()).Read(b)
	switch fault(c.now.Load()) {
	case faultUnread:
		c.Conn.Close()
		return 0, syscall.ECONNRESET
	case faultMute:
		for err == nil { // until the client's own patience ends
			_, err = c.Conn.Read(b)
		}
		return 0, err
	}
	return n, err
}
