package brokertest

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"time"
)

// codec splits one connection into units and tells which of them publish and which answer. Each direction is read by a
// goroutine of its own.
type codec interface {
	next(d Direction, r *bufio.Reader) (unit, error)
}

// unit is what travels at once.
type unit struct {
	bytes []byte
	due   time.Time // not written before
	// publish is set on the unit that completes a published message or batch.
	publish *Publish
	// answers tells, on a unit that answers publishes, whether the one with this number is among them.
	answers func(number uint64) bool
}

type rawCodec struct{}

func (rawCodec) next(_ Direction, r *bufio.Reader) (unit, error) {
	buffer := make([]byte, 32<<10)
	n, err := r.Read(buffer)
	if n > 0 {
		err = nil
	}
	return unit{bytes: buffer[:n]}, err
}

// link is one client's connection with the one to the server.
type link struct {
	p     *Proxy
	id    int
	ends  [2]*net.TCPConn // by the direction that leads to them
	codec codec
	once  sync.Once
	done  chan struct{} // closed by cut

	mu      sync.Mutex
	pending map[uint64]*Trap // trapped publishes whose answer is waited for, by number
	muted   bool
}

// cut ends both connections: the client sees a reset, the server an orderly end behind what it was sent, so that it takes
// all of that in. run closes the server's side for good.
func (l *link) cut() {
	l.once.Do(func() {
		close(l.done)
		reset(l.ends[ToClient])
		server := l.ends[ToServer]
		_ = server.SetWriteDeadline(time.Now()) // a write that waits for a server which does not read
		_ = server.SetReadDeadline(time.Now().Add(drainLimit))
		_ = server.CloseWrite()
	})
}

// open reports whether the link was not cut yet.
func (l *link) open() bool {
	select {
	case <-l.done:
		return false
	default:
		return true
	}
}

// drainLimit is how long a server may take to close its side after a cut.
const drainLimit = 5 * time.Second

// run returns when both directions have ended.
func (l *link) run() {
	var wg sync.WaitGroup
	for _, d := range []Direction{ToServer, ToClient} {
		// A queue between reading and writing lets a delay hold bytes back without slowing the flow.
		queue := make(chan unit, 1024)
		wg.Go(func() { l.read(d, queue) })
		wg.Go(func() { l.write(d, queue) })
	}
	// The proxy's own end does not wait for a server that keeps its side open.
	hasty := context.AfterFunc(l.p.ctx, func() { _ = l.ends[ToServer].Close() })
	defer hasty()
	wg.Wait()
	l.once.Do(func() { // both sides have ended by themselves
		close(l.done)
		_ = l.ends[ToClient].Close()
	})
	// Closing with unread bytes would reset the connection, and the server might throw away what it has not read yet.
	_, _ = io.Copy(io.Discard, l.ends[ToServer])
	_ = l.ends[ToServer].Close()
}

func (l *link) read(d Direction, queue chan<- unit) {
	defer close(queue)
	source := bufio.NewReaderSize(l.ends[1-d], 32<<10)
	for {
		u, err := l.codec.next(d, source)
		if err != nil {
			if !errors.Is(err, io.EOF) {
				l.cut()
			}
			return
		}
		u.due = time.Now().Add(l.p.gate(d).delay)
		select {
		case queue <- u:
		case <-l.done:
			return
		}
	}
}

func (l *link) write(d Direction, queue <-chan unit) {
	for u := range queue {
		if !l.forward(d, u) {
			l.cut()
			return
		}
	}
	_ = l.ends[d].CloseWrite()
}

// forward brings one unit to its end, or not, as the faults in force have it. False means: cut.
func (l *link) forward(d Direction, u unit) bool {
	if !l.await(u.due) || !l.passGate(d) {
		return false
	}
	switch l.p.ask(Chunk{Link: l.id, Direction: d, Bytes: u.bytes}) {
	case Swallow:
		return true
	case CutHere:
		return false
	case Forward:
	}
	if d == ToClient {
		return l.reply(u)
	}
	var trap *Trap
	if u.publish != nil {
		u.publish.Link = l.id
		trap = l.p.spring(u.publish)
	}
	switch {
	case trap == nil:
		return l.send(d, u)
	case trap.fault == CutBefore:
		trap.count()
		return false
	case trap.fault == CutAfter:
		l.mute() // the answer may be faster than the cut
		l.send(d, u)
		trap.count()
		return false
	}
	l.mu.Lock()
	l.pending[u.publish.number] = trap
	l.mu.Unlock()
	return l.send(d, u)
}

func (l *link) mute() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.muted = true
}

// reply forwards what the server sent, unless it answers trapped publishes.
func (l *link) reply(u unit) bool {
	traps, muted := l.answered(u)
	for _, trap := range traps {
		trap.count()
	}
	for _, trap := range traps {
		switch trap.fault {
		case CutAtAnswer:
			return false
		case HoldAnswer:
			select {
			case <-trap.released:
			case <-l.done:
				return false
			}
		default: // the answer is swallowed
			return true
		}
	}
	return muted || l.send(ToClient, u)
}

// answered takes the traps of those publishes that u answers; one AMQP confirm may answer many.
func (l *link) answered(u unit) (traps []*Trap, muted bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if u.answers == nil {
		return nil, l.muted
	}
	for number, trap := range l.pending {
		if u.answers(number) {
			traps = append(traps, trap)
			delete(l.pending, number)
			l.muted = l.muted || trap.fault == MuteFrom
		}
	}
	return traps, l.muted
}

func (l *link) send(d Direction, u unit) bool {
	if l.p.gate(d).drop {
		return true
	}
	_, err := l.ends[d].Write(u.bytes)
	return err == nil
}

// await returns at due, or false when the link was cut before.
func (l *link) await(due time.Time) bool {
	wait := time.Until(due)
	if wait <= 0 {
		return true
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-l.done:
		return false
	}
}

// passGate returns when the direction is not stalled, or false when the link was cut before.
func (l *link) passGate(d Direction) bool {
	for {
		stalled := l.p.gate(d).stalled
		if stalled == nil {
			return true
		}
		select {
		case <-stalled:
		case <-l.done:
			return false
		}
	}
}
