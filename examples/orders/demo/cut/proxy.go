// Package cut is a TCP proxy that loses a broker's answer on purpose: the broker has stored a message, and whoever sent it
// never hears of it. It understands just enough of AMQP and of the Kafka protocol to find that answer.
package cut

import (
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
)

// Proxy forwards connections to a broker.
type Proxy struct {
	protocol protocol

	mu        sync.Mutex
	armed     chan struct{} // closed when the next answer was lost; nil while nothing is to be lost
	listeners []net.Listener
	conns     map[net.Conn]struct{}
	closed    bool
	running   sync.WaitGroup
}

// protocol forwards one connection; both copies end when either side does.
type protocol interface {
	requests(client io.Reader, broker io.Writer, c *conversation) error
	answers(broker io.Reader, client io.Writer, c *conversation) error
}

// conversation is one connection through the proxy.
type conversation struct {
	proxy   *Proxy
	mu      sync.Mutex
	pending map[int32]request // Kafka: requests without an answer
}

// errCut ends a connection whose answer was lost.
var errCut = errors.New("answer lost on purpose")

// LoseNextAnswer makes the next answer to a publish disappear, with the connection it would have come on. The channel is
// closed when that has happened.
func (p *Proxy) LoseNextAnswer() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.armed == nil {
		p.armed = make(chan struct{})
	}
	return p.armed
}

// loses says whether this answer is the one to lose.
func (p *Proxy) loses() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.armed == nil {
		return false
	}
	close(p.armed)
	p.armed = nil
	return true
}

// listen opens a port of the loopback address that leads to upstream.
func (p *Proxy) listen(upstream string) (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("open a proxy: %w", err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return "", errors.Join(net.ErrClosed, l.Close())
	}
	p.listeners = append(p.listeners, l)
	p.running.Go(func() { p.accept(l, upstream) })
	return l.Addr().String(), nil
}

func (p *Proxy) accept(l net.Listener, upstream string) {
	for {
		client, err := l.Accept()
		if err != nil {
			return // closed
		}
		p.running.Go(func() { p.forward(client, upstream) })
	}
}

// forward serves one connection until either side ends it.
func (p *Proxy) forward(client net.Conn, upstream string) {
	defer client.Close()
	broker, err := net.Dial("tcp", upstream)
	if err != nil {
		return
	}
	defer broker.Close()
	if !p.hold(client, broker) {
		return
	}
	defer p.release(client, broker)

	c := &conversation{proxy: p, pending: map[int32]request{}}
	done := make(chan struct{}, 2)
	go func() {
		_ = p.protocol.requests(client, broker, c)
		done <- struct{}{}
	}()
	go func() {
		_ = p.protocol.answers(broker, client, c)
		done <- struct{}{}
	}()
	<-done
	client.Close()
	broker.Close()
	<-done
}

// hold remembers the connections, so that Close can end them.
func (p *Proxy) hold(conns ...net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return false
	}
	if p.conns == nil {
		p.conns = map[net.Conn]struct{}{}
	}
	for _, c := range conns {
		p.conns[c] = struct{}{}
	}
	return true
}

func (p *Proxy) release(conns ...net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range conns {
		delete(p.conns, c)
	}
}

// Close ends every connection and waits for them.
func (p *Proxy) Close() {
	p.mu.Lock()
	p.closed = true
	for _, l := range p.listeners {
		l.Close()
	}
	for c := range p.conns {
		c.Close()
	}
	p.mu.Unlock()
	p.running.Wait()
}
