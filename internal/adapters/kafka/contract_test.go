package kafka

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/backend-skeleton/relay/internal/testenv"
	"github.com/backend-skeleton/relay/messaging"
	"github.com/backend-skeleton/relay/messaging/messagingtest"
	"github.com/backend-skeleton/relay/messaging/transport"
)

// TestContract holds the adapter to the contract of all adapters. What one broker cannot provoke the other does: the real one
// knows rights and certificates, the embedded one refuses appends on demand.
func TestContract(t *testing.T) {
	t.Parallel()
	for name, broker := range map[string]struct {
		open     func(t testing.TB) cluster
		unproved []string
	}{
		"real":     {realCluster, []string{"reject", "ordering scope"}},
		"embedded": {func(t testing.TB) cluster { return fakeCluster(t) }, []string{"credential", "ACL", "TLS failure"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := broker.open(t)
			report := messagingtest.RunContract(t, c.subject)
			for _, line := range report.NotProved {
				if of, _, _ := strings.Cut(line, "/"); !slices.Contains(broker.unproved, of) {
					t.Errorf("not proved: %s", line)
				}
			}
			for _, of := range []string{
				"normal publish", "reject", "ambiguity", "same-id retry", "ordering scope", "payload limit", "header policy",
				"credential", "ACL", "TLS failure", "graceful shutdown", "cardinality",
			} {
				if !slices.Contains(report.Proved, of) && !slices.Contains(broker.unproved, of) {
					t.Errorf("%s is not proved", of)
				}
			}
		})
	}
}

// subject is an adapter of its own, with faults on its wire.
func (c cluster) subject(tb testing.TB) messagingtest.Subject {
	w, logs := newWire(), &logBuffer{}
	conf := Config{
		Name: "contract", Seeds: strings.Split(c.seeds, ","), Dial: w.dial,
		Logger: slog.New(slog.NewTextHandler(logs, &slog.HandlerOptions{Level: slog.LevelDebug})),
	}
	a, err := New(conf)
	if err != nil {
		tb.Fatal(err)
	}
	to := func(name messaging.DestinationName, topic string) transport.Endpoint {
		e := endpoint(topic, "timeout", 5*time.Second, "request-timeout", time.Second)
		e.Name = name
		return e
	}
	return messagingtest.Subject{
		Adapter: a, PublishOnly: true, Logs: logs.String, MaxBytes: 2 << 20, Patience: 40 * time.Second,
		Place: func(name messaging.DestinationName) transport.Endpoint {
			return to(name, c.topic(tb, 3, "max.message.bytes", "2000000"))
		},
		Nowhere: func() transport.Endpoint { return to("nowhere", topicName(tb)) },
		Stored:  func(e transport.Endpoint) []transport.Message { return messagesOf(c.stored(tb, e.Physical["topic"])) },
		Inject: func(f messagingtest.Fault) (func(), error) {
			return c.inject(tb, w, f.Kind)
		},
		As: func(d messagingtest.Denial) (transport.Adapter, error) { return c.denied(tb, d) },
	}
}

// inject makes a fault that lasts until it is undone, since the adapter's own repetitions would heal a single one.
func (c cluster) inject(tb testing.TB, w *wire, k messagingtest.FaultKind) (func(), error) {
	end := func() { w.set(faultNone) }
	switch k {
	case messagingtest.DropAck:
		w.set(faultMute)
		return end, nil
	case messagingtest.Cut:
		w.set(faultHalf)
		return end, nil
	case messagingtest.LateAck:
		w.set(faultHeld)
		return func() {
			end()
			if err := w.release(); err != nil {
				tb.Logf("release: %v", err)
			}
		}, nil
	case messagingtest.Nack:
		if c.fake == nil {
			return nil, errors.ErrUnsupported
		}
		return c.fake.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Err: kerr.NotEnoughReplicas, Count: -1}).Remove, nil
	case messagingtest.Return, messagingtest.Block:
		return nil, messagingtest.ErrNoSuchFailure
	default:
		return nil, errors.ErrUnsupported
	}
}

// denied is an adapter that the broker refuses.
func (c cluster) denied(tb testing.TB, d messagingtest.Denial) (transport.Adapter, error) {
	if c.fake != nil {
		return nil, errors.ErrUnsupported
	}
	conf := Config{Name: "contract", Logger: slog.New(slog.DiscardHandler)}
	switch d {
	case messagingtest.BadCredential:
		asUser(tb, "SCRAM-SHA-512", "PRODUCER", wrongPassword)(&conf)
	case messagingtest.NoRight:
		asUser(tb, "SCRAM-SHA-512", "CONSUMER", right(tb, "CONSUMER"))(&conf)
	default:
		conf.Seeds, conf.TLS = strings.Split(testenv.Require(tb, "KAFKA_TLS_BOOTSTRAP"), ","), &tls.Config{RootCAs: x509.NewCertPool()}
	}
	return New(conf)
}

func wrongPassword(context.Context) (string, error) { return "not it", nil }

// messagesOf reads records as what was published.
func messagesOf(rs []*kgo.Record) []transport.Message {
	ms := make([]transport.Message, len(rs))
	for i, r := range rs {
		ms[i] = transport.Message{Key: r.Key, NullKey: r.Key == nil, Value: r.Value, NullValue: r.Value == nil, PublishedAt: r.Timestamp}
		for _, h := range r.Headers {
			ms[i].Header = append(ms[i].Header, transport.Header{Name: h.Key, Value: h.Value})
			if h.Key == transport.HeaderID {
				ms[i].ID, _ = messaging.ParseMessageID(string(h.Value))
			}
		}
	}
	return ms
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
