package brokertest

import (
	"context"
	"net"
	"strings"
	"sync"
	"testing"
	"time"
)

// Direction is the way that bytes take through a Proxy.
type Direction int

// The two directions, from the proxy's place between them.
const (
	ToServer Direction = iota
	ToClient
)

// Proxy stands between a client and a server and makes faults on the wire. It begins transparent. All methods are safe
// for concurrent use; it ends with the test.
type Proxy struct {
	newCodec func(p *Proxy) codec
	ctx      context.Context // ends with the proxy; bounds its dials
	stop     context.CancelFunc
	wg       sync.WaitGroup

	mu     sync.Mutex
	fronts []*front
	links  map[*link]struct{}
	dials  int
	gates  [2]gate
	hook   func(Chunk) Verdict
	traps  []*Trap
	topics map[[16]byte]string // Kafka's names of topics, by the ids that newer requests carry
}

// front is one listening address of the proxy and the server that it leads to.
type front struct {
	addr, target string
	listener     net.Listener // nil while the proxy is down
}

// NewProxy leads to target, host:port, and knows nothing of the protocol. Traps never spring on it; everything else
// works.
func NewProxy(t testing.TB, target string) *Proxy {
	t.Helper()
	return newProxy(t, func(*Proxy) codec { return rawCodec{} }, target)
}

// NewAMQPProxy leads to a RabbitMQ's plaintext listener, host:port.
func NewAMQPProxy(t testing.TB, target string) *Proxy {
	t.Helper()
	return newProxy(t, func(*Proxy) codec { return newAMQPCodec() }, target)
}

// NewKafkaProxy leads to a Kafka cluster's plaintext or SASL-over-plaintext listeners, host:port separated by commas. A
// Kafka client connects to the addresses that brokers tell it, so the proxy puts its own in their place: whoever
// bootstraps at Addr reaches every broker through the proxy, also brokers that were not named here.
func NewKafkaProxy(t testing.TB, bootstrap string) *Proxy {
	t.Helper()
	return newProxy(t, func(p *Proxy) codec { return newKafkaCodec(p) }, strings.Split(bootstrap, ",")...)
}

func newProxy(t testing.TB, newCodec func(*Proxy) codec, targets ...string) *Proxy {
	t.Helper()
	p := &Proxy{newCodec: newCodec, links: map[*link]struct{}{}, topics: map[[16]byte]string{}}
	p.ctx, p.stop = context.WithCancel(context.WithoutCancel(t.Context()))
	t.Cleanup(p.close)
	for _, target := range targets {
		if _, err := p.front(target); err != nil {
			t.Fatalf("start a proxy: %v", err)
		}
	}
	return p
}

// Addr is the proxy's own address, host:port; one for each bootstrap broker of Kafka, separated by commas.
func (p *Proxy) Addr() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var addrs []string
	for _, f := range p.fronts {
		addrs = append(addrs, f.addr)
	}
	return strings.Join(addrs, ",")
}

// DialContext connects to the proxy whatever address is asked for. It is for clients that learn addresses elsewhere.
func (p *Proxy) DialContext(ctx context.Context, network, _ string) (net.Conn, error) {
	p.mu.Lock()
	addr := p.fronts[0].addr
	p.mu.Unlock()
	var d net.Dialer
	return d.DialContext(ctx, network, addr)
}

// Dials counts the connections that clients have opened since the start.
func (p *Proxy) Dials() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.dials
}

// Open counts the connections that are open now.
func (p *Proxy) Open() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := 0
	for l := range p.links {
		if l.open() {
			n++
		}
	}
	return n
}

// Cut ends every open connection now, the client's with a reset, and returns how many. New ones are let through.
func (p *Proxy) Cut() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := 0
	for l := range p.links {
		if l.open() {
			n++
		}
		l.cut()
	}
	return n
}

// Down is a server that is away: open connections are cut and new ones refused. Up ends it.
func (p *Proxy) Down() {
	p.mu.Lock()
	for _, f := range p.fronts {
		if f.listener != nil {
			_ = f.listener.Close()
			f.listener = nil
		}
	}
	p.mu.Unlock()
	p.Cut()
}

// Up listens again on the same addresses.
func (p *Proxy) Up(t testing.TB) {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, f := range p.fronts {
		if err := p.listen(f); err != nil {
			t.Fatalf("bring the proxy up again: %v", err)
		}
	}
}

func (p *Proxy) close() {
	p.stop()
	p.Down()
	p.wg.Wait()
}

// front returns the proxy's address for a server and makes one for a server not seen before.
func (p *Proxy) front(target string) (string, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, f := range p.fronts {
		if f.target == target || f.addr == target {
			return f.addr, nil
		}
	}
	f := &front{addr: "127.0.0.1:0", target: target}
	if err := p.listen(f); err != nil {
		return "", err
	}
	p.fronts = append(p.fronts, f)
	return f.addr, nil
}

// listen is called with the lock held.
func (p *Proxy) listen(f *front) error {
	select {
	case <-p.ctx.Done():
		return nil
	default:
	}
	if f.listener != nil {
		return nil
	}
	listener, err := net.Listen("tcp", f.addr)
	if err != nil {
		return err
	}
	f.listener, f.addr = listener, listener.Addr().String()
	target := f.target
	p.wg.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return // closed
			}
			p.wg.Go(func() { p.serve(conn.(*net.TCPConn), target) })
		}
	})
	return nil
}

// serve carries one connection until it ends.
func (p *Proxy) serve(client *net.TCPConn, target string) {
	p.mu.Lock()
	p.dials++
	id := p.dials
	p.mu.Unlock()
	dialer := net.Dialer{Timeout: 10 * time.Second}
	server, err := dialer.DialContext(p.ctx, "tcp", target)
	if err != nil {
		reset(client)
		return
	}
	l := &link{
		p: p, id: id, ends: [2]*net.TCPConn{ToServer: server.(*net.TCPConn), ToClient: client}, done: make(chan struct{}),
		codec: p.newCodec(p), pending: map[uint64]*Trap{},
	}
	p.mu.Lock()
	p.links[l] = struct{}{}
	closed := p.ctx.Err() != nil
	p.mu.Unlock()
	if closed {
		l.cut()
	}
	l.run()
	p.mu.Lock()
	delete(p.links, l)
	p.mu.Unlock()
}

// reset closes so that the other side sees a broken connection, not an orderly end.
func reset(conn *net.TCPConn) {
	_ = conn.SetLinger(0)
	_ = conn.Close()
}
