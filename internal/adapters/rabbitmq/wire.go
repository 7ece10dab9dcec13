package rabbitmq

import (
	"net"
	"sync"
)

// wireMark is how many bytes may wait for the socket before no further message is
// admitted.
const wireMark = 1 << 20

// wirePiece is the most bytes of one system call: of what a connection took with
// it, only the last piece is in doubt.
const wirePiece = 64 << 10

// wire stands between the client library and the socket, for three reasons. The
// library flushes after every message: the wire gathers what all channels write
// and hands it over in few system calls. A socket that stands still would hold
// the library's locks, and with them Close: a write to the wire never blocks.
// And it counts: a message none of whose bytes was ever offered to the socket is
// certainly not on the broker.
type wire struct {
	net.Conn // what is read and written: the socket, or TLS over it

	socket  net.Conn
	drained func() // called when the buffer falls below wireMark again
	kick    chan struct{}
	done    chan struct{} // closed when the writing goroutine ended

	mu      sync.Mutex
	buffer  []byte
	taken   uint64 // bytes accepted from the library
	offered uint64 // bytes of them that were handed to the socket, whatever became of them
	closed  bool
	readErr error
}

// newWire starts the writing goroutine; Close ends it.
func newWire(conn, socket net.Conn, drained func()) *wire {
	w := &wire{Conn: conn, socket: socket, drained: drained, kick: make(chan struct{}, 1), done: make(chan struct{})}
	go w.run()
	return w
}

// Write takes all of b at once. Its only error is [net.ErrClosed].
func (w *wire) Write(b []byte) (int, error) {
	w.mu.Lock()
	if w.closed {
		w.mu.Unlock()
		return 0, net.ErrClosed
	}
	w.buffer = append(w.buffer, b...)
	w.taken += uint64(len(b))
	w.mu.Unlock()
	select {
	case w.kick <- struct{}{}:
	default:
	}
	return len(b), nil
}

// run hands the buffer to the socket, piece by piece, until either is closed.
func (w *wire) run() {
	defer close(w.done)
	var spare []byte
	for range w.kick {
		w.mu.Lock()
		out := w.buffer
		w.buffer = spare[:0]
		w.mu.Unlock()
		for rest := out; len(rest) > 0; {
			piece := rest[:min(len(rest), wirePiece)]
			if !w.offer(len(piece)) {
				return
			}
			if _, err := w.Conn.Write(piece); err != nil {
				_ = w.Close()
				return
			}
			rest = rest[len(piece):]
		}
		if !w.offer(0) { // Close wakes the loop with nothing to write
			return
		}
		if cap(out) > 2*wireMark {
			out = nil // one burst must not be kept for ever
		}
		spare = out
	}
}

// offer counts n bytes as handed to the socket, unless the wire is closed.
func (w *wire) offer(n int) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return false
	}
	before := w.taken - w.offered
	w.offered += uint64(n)
	if before >= wireMark && before-uint64(n) < wireMark {
		w.drained()
	}
	return true
}

// Read remembers the error: the library keeps only its text.
func (w *wire) Read(b []byte) (int, error) {
	n, err := w.Conn.Read(b)
	if err != nil {
		w.mu.Lock()
		if w.readErr == nil {
			w.readErr = err
		}
		w.mu.Unlock()
	}
	return n, err
}

// Close drops the connection at once; what is still in the buffer is never
// offered. It closes the socket itself, since TLS would first try to say goodbye.
func (w *wire) Close() error {
	w.mu.Lock()
	already := w.closed
	w.closed = true
	w.mu.Unlock()
	if already {
		return nil
	}
	select {
	case w.kick <- struct{}{}:
	default:
	}
	return w.socket.Close()
}

// position is where the next byte will stand in the stream.
func (w *wire) position() uint64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.taken
}

// unsent tells whether nothing from the position on was ever offered to the
// socket. It is final only once the wire is closed.
func (w *wire) unsent(position uint64) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.closed && w.offered <= position
}

// full tells whether enough bytes wait already.
func (w *wire) full() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.taken-w.offered >= wireMark
}

// readError is why reading ended, nil while it has not.
func (w *wire) readError() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.readErr
}
