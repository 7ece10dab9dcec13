package brokertest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"syscall"
	"testing"
	"time"
)

// echoServer answers each byte with itself and tells what it was sent.
func echoServer(t *testing.T) (addr string, received <-chan []byte) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	sent := make(chan []byte, 1000)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer func() { _ = conn.Close() }()
				buffer := make([]byte, 1024)
				for {
					n, err := conn.Read(buffer)
					if err != nil {
						return
					}
					sent <- bytes.Clone(buffer[:n])
					if _, err := conn.Write(buffer[:n]); err != nil {
						return
					}
				}
			}()
		}
	}()
	t.Cleanup(func() {
		_ = listener.Close()
		<-done
	})
	return listener.Addr().String(), sent
}

// client is a connection whose answers are waited for with a deadline.
type client struct {
	net.Conn
	t *testing.T
}

func dial(t *testing.T, p *Proxy) client {
	t.Helper()
	conn, err := net.Dial("tcp", p.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return client{conn, t}
}

func (c client) write(s string) {
	c.t.Helper()
	if _, err := io.WriteString(c, s); err != nil {
		c.t.Fatal(err)
	}
}

func (c client) expect(want string) {
	c.t.Helper()
	got := make([]byte, len(want))
	_ = c.SetReadDeadline(time.Now().Add(5 * time.Second))
	if _, err := io.ReadFull(c, got); err != nil || string(got) != want {
		c.t.Fatalf("got %q, %v; want %q", got, err, want)
	}
}

func (c client) expectNothing() {
	c.t.Helper()
	_ = c.SetReadDeadline(time.Now().Add(150 * time.Millisecond))
	if n, err := c.Read(make([]byte, 1)); n != 0 || !errors.Is(err, context.DeadlineExceeded) && !isTimeout(err) {
		c.t.Fatalf("read %d bytes, %v; want nothing", n, err)
	}
}

func (c client) expectReset() {
	c.t.Helper()
	_ = c.SetReadDeadline(time.Now().Add(5 * time.Second))
	if n, err := c.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
		c.t.Fatalf("read %d bytes, %v; want a reset", n, err)
	}
}

func isTimeout(err error) bool {
	var timeout net.Error
	return errors.As(err, &timeout) && timeout.Timeout()
}

func expectReceived(t *testing.T, received <-chan []byte, want string) {
	t.Helper()
	select {
	case got := <-received:
		if string(got) != want {
			t.Fatalf("the server was sent %q, want %q", got, want)
		}
	case <-time.After(5 * time.Second):
		t.Fatalf("the server was not sent %q", want)
	}
}

func TestProxyPasses(t *testing.T) {
	t.Parallel()
	addr, _ := echoServer(t)
	p := NewProxy(t, addr)
	one, two := dial(t, p), dial(t, p)
	one.write("one")
	two.write("two")
	one.expect("one")
	two.expect("two")
	if p.Dials() != 2 || p.Open() != 2 {
		t.Errorf("%d dials, %d open, want 2 and 2", p.Dials(), p.Open())
	}
	_ = one.Close()
	Eventually(t, 5*time.Second, "a closed connection is not open", func() bool { return p.Open() == 1 })
	conn, err := p.DialContext(t.Context(), "tcp", "elsewhere:1")
	if err != nil {
		t.Fatal(err)
	}
	three := client{conn, t}
	defer func() { _ = conn.Close() }()
	three.write("three")
	three.expect("three")
}

func TestProxyStalls(t *testing.T) {
	t.Parallel()
	addr, received := echoServer(t)
	p := NewProxy(t, addr)
	c := dial(t, p)
	p.Stall(ToServer)
	c.write("a")
	c.expectNothing()
	if len(received) != 0 {
		t.Error("the server was sent something during the stall")
	}
	p.Resume()
	c.expect("a")
	expectReceived(t, received, "a")
	p.Stall(ToClient)
	c.write("b")
	expectReceived(t, received, "b")
	c.expectNothing()
	p.Resume()
	c.expect("b")
}

func TestProxyDelays(t *testing.T) {
	t.Parallel()
	addr, _ := echoServer(t)
	p := NewProxy(t, addr)
	c := dial(t, p)
	p.Delay(100 * time.Millisecond)
	begin := time.Now()
	c.write("a")
	c.expect("a")
	if took := time.Since(begin); took < 200*time.Millisecond {
		t.Errorf("there and back took %v, want 200ms at least", took)
	}
	p.Delay(0)
	c.write("bc")
	c.expect("bc")
}

func TestProxyDropsReplies(t *testing.T) {
	t.Parallel()
	addr, received := echoServer(t)
	p := NewProxy(t, addr)
	c := dial(t, p)
	p.DropReplies()
	c.write("a")
	expectReceived(t, received, "a")
	c.expectNothing()
	p.Pass()
	c.write("b")
	c.expect("b")
}

func TestProxyCuts(t *testing.T) {
	t.Parallel()
	addr, _ := echoServer(t)
	p := NewProxy(t, addr)
	c := dial(t, p)
	c.write("a")
	c.expect("a")
	if n := p.Cut(); n != 1 {
		t.Errorf("cut %d connections, want 1", n)
	}
	c.expectReset()
	c = dial(t, p)
	c.write("b")
	c.expect("b")
	p.Stall()
	p.Cut()
	c.expectReset()
}

func TestProxyDownAndUp(t *testing.T) {
	t.Parallel()
	addr, _ := echoServer(t)
	p := NewProxy(t, addr)
	own := p.Addr()
	c := dial(t, p)
	c.write("a")
	c.expect("a")
	p.Down()
	c.expectReset()
	if conn, err := net.Dial("tcp", own); !errors.Is(err, syscall.ECONNREFUSED) {
		_ = conn.Close()
		t.Errorf("dial while down: %v, want refused", err)
	}
	p.Up(t)
	if p.Addr() != own {
		t.Errorf("came up at %s, was at %s", p.Addr(), own)
	}
	c = dial(t, p)
	c.write("b")
	c.expect("b")
}

func TestProxyWithoutServer(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = listener.Close()
	conn, err := net.Dial("tcp", NewProxy(t, listener.Addr().String()).Addr())
	if err != nil { // the reset may be faster than the dial
		if !errors.Is(err, syscall.ECONNRESET) {
			t.Fatal(err)
		}
		return
	}
	defer func() { _ = conn.Close() }()
	client{conn, t}.expectReset()
}

func TestProxyIntercepts(t *testing.T) {
	t.Parallel()
	addr, received := echoServer(t)
	p := NewProxy(t, addr)
	p.Intercept(func(c Chunk) Verdict {
		switch {
		case c.Direction == ToServer && bytes.Equal(c.Bytes, []byte("lost")):
			return Swallow
		case c.Direction == ToClient && bytes.Equal(c.Bytes, []byte("end")):
			return CutHere
		}
		return Forward
	})
	c := dial(t, p)
	c.write("lost")
	c.expectNothing()
	c.write("kept")
	c.expect("kept")
	expectReceived(t, received, "kept")
	c.write("end")
	expectReceived(t, received, "end")
	c.expectReset()
	p.Intercept(nil)
	c = dial(t, p)
	c.write("end")
	c.expect("end")
}

// Closing in the middle of everything must leave no goroutine; TestMain looks.
func TestProxyEndsWhileBusy(t *testing.T) {
	t.Parallel()
	addr, _ := echoServer(t)
	t.Run("inner", func(t *testing.T) {
		p := NewProxy(t, addr)
		c := dial(t, p)
		c.write("a")
		c.expect("a")
		p.Delay(time.Hour)
		c.write("b")
		p.Stall()
		dial(t, p).write("c")
	})
}
