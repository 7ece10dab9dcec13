package rabbitmq

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"log/slog"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/backend-skeleton/relay/internal/brokertest"
	"github.com/backend-skeleton/relay/messaging"
	"github.com/backend-skeleton/relay/messaging/messagingtest"
	"github.com/backend-skeleton/relay/messaging/transport"
)

// TestContract holds the adapter to the contract of all adapters, on a real broker with faults on the wire.
func TestContract(t *testing.T) {
	t.Parallel()
	brokertest.Require(t, "RABBITMQ_TLS_URL_1")
	report := messagingtest.RunContract(t, subject)
	for _, line := range report.NotProved {
		// The broker blocks connections when it is short of memory: shared servers are not made so.
		if !strings.HasPrefix(line, "ambiguity/back-pressure") {
			t.Errorf("not proved: %s", line)
		}
	}
	for _, of := range []string{
		"normal publish", "reject", "same-id retry", "ordering scope", "payload limit", "header policy", "credential", "ACL",
		"TLS failure", "graceful shutdown", "cardinality",
	} {
		if !slices.Contains(report.Proved, of) {
			t.Errorf("%s is not proved", of)
		}
	}
}

// yard is a virtual host with an exchange, a proxy before it, and readers behind it.
type yard struct {
	tb     testing.TB
	v      *brokertest.Vhost
	proxy  *brokertest.Proxy
	reader map[string]*brokertest.Capture
	own    *amqp.Channel // in confirm mode
}

func subject(tb testing.TB) messagingtest.Subject {
	y := &yard{tb: tb, v: brokertest.NewVhost(tb), reader: map[string]*brokertest.Capture{}}
	y.v.Exchange(tb, "e", "direct")
	y.proxy = brokertest.NewAMQPProxy(tb, y.v.Addr())
	logs := &logBuffer{}
	c := configFor(tb, y.v)
	c.Seeds = []string{y.proxy.Addr()}
	c.Channels = 1 // the one that is open before a fault strikes
	c.Logger = slog.New(slog.NewTextHandler(logs, &slog.HandlerOptions{Level: slog.LevelDebug}))
	a, err := New(c)
	if err != nil {
		tb.Fatal(err)
	}
	return messagingtest.Subject{
		Adapter: a, PublishOnly: true, Logs: logs.String, MaxBytes: 16 << 20,
		Place: func(name messaging.DestinationName) transport.Endpoint {
			y.v.Queue(tb, string(name), map[string]any{"x-overflow": "reject-publish"})
			y.v.Bind(tb, "e", string(name), string(name))
			return y.to(name)
		},
		Nowhere: func() transport.Endpoint { return y.to("nowhere") },
		Stored:  func(e transport.Endpoint) []transport.Message { return y.stored(e.Physical["queue"]) },
		Inject:  y.inject,
		As:      y.denied,
	}
}

func (y *yard) to(name messaging.DestinationName) transport.Endpoint {
	e := to("e", string(name), "timeout", 5*time.Second, "abandon-after", 6*time.Second)
	e.Name, e.Physical["queue"] = name, string(name)
	return e
}

// AMQP's methods, by class and number.
const (
	methodPublish = "\x00\x3c\x00\x28"
	methodAck     = "\x00\x3c\x00\x50"
)

func method(frame []byte, is string) bool {
	return len(frame) > 11 && frame[0] == 1 && string(frame[7:11]) == is
}

func (y *yard) inject(f messagingtest.Fault) (func(), error) {
	switch f.Kind {
	case messagingtest.DropAck:
		y.proxy.Intercept(func(c brokertest.Chunk) brokertest.Verdict {
			if c.Direction == brokertest.ToClient && method(c.Bytes, methodAck) {
				return brokertest.Swallow
			}
			return brokertest.Forward
		})
		return func() { y.proxy.Intercept(nil); y.proxy.Cut() }, nil
	case messagingtest.LateAck:
		y.proxy.Stall(brokertest.ToClient)
		return y.proxy.Resume, nil
	case messagingtest.Cut:
		y.proxy.Intercept(func(c brokertest.Chunk) brokertest.Verdict {
			if c.Direction == brokertest.ToServer && method(c.Bytes, methodPublish) {
				return brokertest.CutHere
			}
			return brokertest.Forward
		})
		return func() { y.proxy.Intercept(nil) }, nil
	case messagingtest.Nack:
		return y.full(f.Destination), nil
	case messagingtest.Return:
		return y.unbound(f.Destination), nil
	default:
		return nil, errors.ErrUnsupported
	}
}

// full makes the queue refuse everything until it is undone.
func (y *yard) full(queue string) (undo func()) {
	y.v.Call(y.tb, "PUT", "policies/"+y.v.Name+"/full", map[string]any{
		"pattern": "^" + queue + "$", "definition": map[string]any{"max-length": 1}, "apply-to": "queues",
	})
	accepts := func(want bool) func() bool {
		return func() bool { return y.put(queue, "filler") == want }
	}
	brokertest.Eventually(y.tb, patience, "the queue is full", accepts(false))
	return sync.OnceFunc(func() {
		y.v.Call(y.tb, "DELETE", "policies/"+y.v.Name+"/full", nil)
		brokertest.Eventually(y.tb, patience, "the queue takes messages again", accepts(true))
	})
}

// unbound makes messages to the queue unroutable until it is undone.
func (y *yard) unbound(queue string) (undo func()) {
	y.v.Call(y.tb, "DELETE", "bindings/"+y.v.Name+"/e/e/q/"+queue+"/"+queue, nil)
	return sync.OnceFunc(func() { y.v.Bind(y.tb, "e", queue, queue) })
}

// put publishes past the proxy and tells whether the queue has taken it.
func (y *yard) put(queue, body string) bool {
	y.tb.Helper()
	if y.own == nil {
		conn, err := amqp.Dial(y.v.URL())
		if err != nil {
			y.tb.Fatalf("dial: %v", err)
		}
		y.tb.Cleanup(func() { _ = conn.Close() })
		if y.own, err = conn.Channel(); err != nil {
			y.tb.Fatalf("channel: %v", err)
		}
		if err := y.own.Confirm(false); err != nil {
			y.tb.Fatalf("confirm mode: %v", err)
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	sent, err := y.own.PublishWithDeferredConfirmWithContext(ctx, "", queue, false, false, amqp.Publishing{Body: []byte(body)})
	if err != nil {
		y.tb.Fatalf("publish: %v", err)
	}
	taken, err := sent.WaitContext(ctx)
	if err != nil {
		y.tb.Fatalf("confirm: %v", err)
	}
	return taken
}

// stored takes what is in the queue up to a fence of its own, and what it has taken before.
func (y *yard) stored(queue string) []transport.Message {
	y.tb.Helper()
	in := y.reader[queue]
	if in == nil {
		in = brokertest.CaptureRabbit(y.tb, y.v.URL(), queue)
		y.reader[queue] = in
	}
	fence := "fence " + time.Now().String()
	if !y.put(queue, fence) {
		y.tb.Fatal("the queue does not take the reader's own message")
	}
	has := func(body string) func(brokertest.Message) bool {
		return func(m brokertest.Message) bool { return string(m.Body) == body }
	}
	brokertest.Eventually(y.tb, patience, "the reader has all", func() bool { return slices.ContainsFunc(in.All(), has(fence)) })
	var ms []transport.Message
	for _, got := range in.All() {
		if len(got.Headers) == 0 { // a filler or a fence
			continue
		}
		m := transport.Message{Value: got.Body}
		m.ID, _ = messaging.ParseMessageID(got.ID)
		for name, values := range got.Headers {
			m.Header = append(m.Header, transport.Header{Name: name, Value: []byte(values[0])})
		}
		ms = append(ms, m)
	}
	return ms
}

// denied is an adapter that the broker refuses.
func (y *yard) denied(d messagingtest.Denial) (transport.Adapter, error) {
	c := configFor(y.tb, y.v)
	switch d {
	case messagingtest.BadCredential:
		c.Credentials.Password = secret("not it")
	case messagingtest.NoRight:
		user, password := y.v.User(y.tb, "", "^$", ".*")
		c.Credentials = Credentials{Username: user, Password: secret(password)}
	default:
		u, err := url.Parse(brokertest.Require(y.tb, "RABBITMQ_TLS_URL_1"))
		if err != nil {
			return nil, errors.New("RABBITMQ_TLS_URL_1 is not a URL")
		}
		c.Seeds, c.TLS = []string{u.Host}, &tls.Config{RootCAs: x509.NewCertPool()}
	}
	return New(c)
}

// logBuffer keeps what is logged.
type logBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *logBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}
