package rabbitmq

import (
	"encoding/binary"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// fate is what the proxy does with one frame.
type fate uint8

const (
	pass    fate = iota
	swallow      // lose this frame, keep the connection
	cut          // lose this frame and everything after it, close both sides
	hold         // stop reading this side for good; the connection stays open
)

// amqpFrame is one frame on its way. Class and method are zero unless kind is 1.
type amqpFrame struct {
	kind          byte
	channel       uint16
	class, method uint16
	raw           []byte
}

func (f amqpFrame) is(class, method uint16) bool { return f.class == class && f.method == method }

func (f amqpFrame) publishes() bool { return f.is(60, 40) }
func (f amqpFrame) acks() bool      { return f.is(60, 80) }

// tag is the delivery tag of an ack.
func (f amqpFrame) tag() uint64 { return binary.BigEndian.Uint64(f.raw[11:]) }

// faultProxy stands before a broker and decides the fate of every AMQP frame.
type faultProxy struct {
	listener net.Listener
	upstream string
	dials    atomic.Int32
	live     atomic.Int32

	mu         sync.Mutex
	fromClient func(amqpFrame) fate
	fromServer func(amqpFrame) fate
	dialled    []time.Time
	refuse     bool
	conns      map[net.Conn]struct{}
	running    sync.WaitGroup
}

func newFaultProxy(t testing.TB, upstream string) *faultProxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &faultProxy{listener: l, upstream: upstream, conns: map[net.Conn]struct{}{}}
	p.running.Go(p.accept)
	t.Cleanup(func() {
		_ = l.Close()
		p.cutAll()
		p.running.Wait()
	})
	return p
}

func (p *faultProxy) addr() string { return p.listener.Addr().String() }

// client and server set what happens to the frames of each side from now on.
func (p *faultProxy) client(f func(amqpFrame) fate) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fromClient = f
}

func (p *faultProxy) server(f func(amqpFrame) fate) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fromServer = f
}

// refuseAll closes what is open and every new connection at once.
func (p *faultProxy) refuseAll(on bool) {
	p.mu.Lock()
	p.refuse = on
	p.mu.Unlock()
	if on {
		p.cutAll()
	}
}

func (p *faultProxy) cutAll() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		_ = c.Close()
	}
}

// gaps are the pauses between the connections that were made.
func (p *faultProxy) gaps() []time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	var gaps []time.Duration
	for i := 1; i < len(p.dialled); i++ {
		gaps = append(gaps, p.dialled[i].Sub(p.dialled[i-1]))
	}
	return gaps
}

func (p *faultProxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		_ = client.(*net.TCPConn).SetReadBuffer(16 << 10) // a side that is held fills up soon
		p.dials.Add(1)
		p.mu.Lock()
		p.dialled = append(p.dialled, time.Now())
		refuse := p.refuse
		p.mu.Unlock()
		if refuse {
			_ = client.Close()
			continue
		}
		server, err := net.Dial("tcp", p.upstream)
		if err != nil {
			_ = client.Close()
			continue
		}
		p.mu.Lock()
		p.conns[client], p.conns[server] = struct{}{}, struct{}{}
		p.mu.Unlock()
		p.live.Add(1)
		ended := make(chan struct{})
		end := sync.OnceFunc(func() {
			_ = client.Close()
			_ = server.Close()
			p.live.Add(-1)
			close(ended)
		})
		p.running.Go(func() { defer end(); p.relay(client, server, true, ended) })
		p.running.Go(func() { defer end(); p.relay(server, client, false, ended) })
	}
}

// relay moves frames of one direction until a side ends or a frame's fate does.
func (p *faultProxy) relay(from, to net.Conn, client bool, ended <-chan struct{}) {
	if client {
		if _, err := io.CopyN(to, from, 8); err != nil { // protocol header
			return
		}
	}
	for {
		f, err := readFrame(from)
		if err != nil {
			return
		}
		p.mu.Lock()
		decide := p.fromServer
		if client {
			decide = p.fromClient
		}
		p.mu.Unlock()
		if decide != nil {
			switch decide(f) {
			case swallow:
				continue
			case cut:
				return
			case hold:
				<-ended // by the other direction, or by cutAll
				return
			}
		}
		if _, err := to.Write(f.raw); err != nil {
			return
		}
	}
}

func readFrame(r io.Reader) (amqpFrame, error) {
	head := make([]byte, 7)
	if _, err := io.ReadFull(r, head); err != nil {
		return amqpFrame{}, err
	}
	raw := make([]byte, 7+int(binary.BigEndian.Uint32(head[3:]))+1)
	copy(raw, head)
	if _, err := io.ReadFull(r, raw[7:]); err != nil {
		return amqpFrame{}, err
	}
	f := amqpFrame{kind: head[0], channel: binary.BigEndian.Uint16(head[1:]), raw: raw}
	if f.kind == 1 && len(raw) >= 12 {
		f.class, f.method = binary.BigEndian.Uint16(raw[7:]), binary.BigEndian.Uint16(raw[9:])
	}
	return f, nil
}
