package kafka

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/backend-skeleton/relay/internal/brokertest"
	"github.com/backend-skeleton/relay/internal/testenv"
	"github.com/backend-skeleton/relay/messaging"
	"github.com/backend-skeleton/relay/messaging/transport"
)

// cluster is a broker that a test publishes to: the real one or the embedded one.
type cluster struct {
	seeds string
	fake  *kfake.Cluster // nil for a real one
}

func fakeCluster(t testing.TB, opts ...kfake.Opt) cluster {
	t.Helper()
	c, err := kfake.NewCluster(append([]kfake.Opt{kfake.NumBrokers(1)}, opts...)...)
	if err != nil {
		t.Fatalf("start the embedded broker: %v", err)
	}
	t.Cleanup(c.Close)
	return cluster{seeds: strings.Join(c.ListenAddrs(), ","), fake: c}
}

func realCluster(t testing.TB) cluster {
	t.Helper()
	return cluster{seeds: testenv.Require(t, "KAFKA_BOOTSTRAP")}
}

// onBoth runs a test against the embedded broker and against a real one.
func onBoth(t *testing.T, f func(t *testing.T, c cluster)) {
	t.Helper()
	t.Run("embedded", func(t *testing.T) { t.Parallel(); f(t, fakeCluster(t)) })
	t.Run("real", func(t *testing.T) { t.Parallel(); f(t, realCluster(t)) })
}

// onVersions runs a test as onBoth does, and against the oldest version that is supported.
func onVersions(t *testing.T, f func(t *testing.T, c cluster)) {
	t.Helper()
	onBoth(t, f)
	t.Run("4.2", func(t *testing.T) { t.Parallel(); f(t, cluster{seeds: testenv.Require(t, "KAFKA42_BOOTSTRAP")}) })
}

func (c cluster) admin(t testing.TB) *kadm.Client {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(strings.Split(c.seeds, ",")...))
	if err != nil {
		t.Fatalf("make an administrative client: %v", err)
	}
	t.Cleanup(cl.Close)
	return kadm.NewClient(cl)
}

func topicName(t testing.TB) string {
	b := make([]byte, 5)
	_, _ = rand.Read(b)
	return "relay." + strings.ToLower(strings.NewReplacer("/", "-", "_", "-").Replace(strings.TrimPrefix(t.Name(), "Test"))) + "-" + hex.EncodeToString(b)
}

// topic creates a topic that goes with the test. Settings are name, value, name, value.
func (c cluster) topic(t testing.TB, partitions int32, settings ...string) string {
	t.Helper()
	name := topicName(t)
	c.create(t, name, partitions, settings...)
	return name
}

func (c cluster) create(t testing.TB, name string, partitions int32, settings ...string) {
	t.Helper()
	conf := map[string]*string{}
	for i := 0; i+1 < len(settings); i += 2 {
		conf[settings[i]] = &settings[i+1]
	}
	admin := c.admin(t)
	if _, err := admin.CreateTopic(t.Context(), partitions, -1, conf, name); err != nil {
		t.Fatalf("create topic: %v", err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 10*time.Second)
		defer cancel()
		_, _ = admin.DeleteTopics(ctx, name)
	})
	brokertest.WaitForLeaders(t, admin, name)
}

// adapter opens an adapter and a publisher that end with the test.
func (c cluster) adapter(t testing.TB, change ...func(*Config)) (*Adapter, *Publisher) {
	t.Helper()
	conf := Config{Name: "test", Seeds: strings.Split(c.seeds, ","), Logger: slog.New(slog.DiscardHandler)}
	for _, f := range change {
		f(&conf)
	}
	a, err := New(conf)
	if err != nil {
		t.Fatalf("open the adapter: %v", err)
	}
	p, err := a.Publisher(t.Context(), nil)
	if err != nil {
		t.Fatalf("open the publisher: %v", err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 100*time.Millisecond)
		defer cancel()
		_ = p.Close(ctx)
		ctx, cancel = context.WithTimeout(context.WithoutCancel(t.Context()), 10*time.Second)
		defer cancel()
		if err := a.Close(ctx); err != nil {
			t.Errorf("close the adapter: %v", err)
		}
	})
	return a, p.(*Publisher)
}

// endpoint is patient, for a busy machine, unless its settings say otherwise.
func endpoint(topic string, settings ...any) transport.Endpoint {
	if settings == nil {
		settings = []any{"timeout", 30 * time.Second, "request-timeout", 2 * time.Second}
	}
	e := transport.Endpoint{Name: "orders", Physical: map[string]string{"topic": topic}, Producer: map[string]any{}}
	for i := 0; i+1 < len(settings); i += 2 {
		e.Producer[settings[i].(string)] = settings[i+1]
	}
	return e
}

// message has a key, unless that is empty, and its value also as a header.
func message(key, value string) transport.Message {
	m := transport.Message{Value: []byte(value), Header: []transport.Header{{Name: "msg.id", Value: []byte(value)}}}
	if key == "" {
		m.NullKey = true
	} else {
		m.Key = []byte(key)
	}
	return m
}

// numbered makes n messages of one key, "<prefix>0" and on, padded to size bytes.
func numbered(key, prefix string, n, size int) []transport.Message {
	ms := make([]transport.Message, n)
	for i := range ms {
		v := fmt.Sprintf("%s%d", prefix, i)
		ms[i] = message(key, v)
		ms[i].Value = append([]byte(v+" "), make([]byte, max(0, size-len(v)-1))...)
	}
	return ms
}

// results collects what a call reports. It fails the test on a second report.
type results struct {
	t    testing.TB
	mu   sync.Mutex
	got  []messaging.PublishResult
	seen []bool
	left int
	all  chan struct{}
}

func newResults(t testing.TB, n int) *results {
	return &results{t: t, got: make([]messaging.PublishResult, n), seen: make([]bool, n), left: n, all: make(chan struct{})}
}

func (r *results) done(i int, res messaging.PublishResult) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.seen[i] {
		r.t.Errorf("message %d was reported twice", i)
		return
	}
	r.got[i], r.seen[i] = res, true
	if r.left--; r.left == 0 {
		close(r.all)
	}
}

func (r *results) wait(limit time.Duration) []messaging.PublishResult {
	r.t.Helper()
	select {
	case <-r.all:
	case <-time.After(limit):
		r.mu.Lock()
		defer r.mu.Unlock()
		r.t.Fatalf("after %s %d of %d messages have no result", limit, r.left, len(r.got))
	}
	return r.got
}

// publish publishes with a publish timeout and waits for every result, however late.
func publish(t testing.TB, p *Publisher, to transport.Endpoint, timeout time.Duration, ms ...transport.Message) []messaging.PublishResult {
	t.Helper()
	r := newResults(t, len(ms))
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	p.Publish(ctx, to, ms, r.done)
	return r.wait(time.Minute)
}

// stored reads everything that a topic has.
func (c cluster) stored(t testing.TB, topic string) []*kgo.Record {
	t.Helper()
	ends, err := c.admin(t).ListEndOffsets(t.Context(), topic)
	if err != nil {
		t.Fatalf("list offsets: %v", err)
	}
	left := int64(0)
	ends.Each(func(o kadm.ListedOffset) { left += o.Offset })
	cl, err := kgo.NewClient(kgo.SeedBrokers(strings.Split(c.seeds, ",")...), kgo.ConsumeTopics(topic), kgo.FetchMaxWait(50*time.Millisecond))
	if err != nil {
		t.Fatalf("make a consumer: %v", err)
	}
	defer cl.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	var rs []*kgo.Record
	for int64(len(rs)) < left {
		f := cl.PollFetches(ctx)
		if ctx.Err() != nil {
			t.Fatalf("read %d of %d records", len(rs), left)
		}
		rs = append(rs, f.Records()...)
	}
	return rs
}

// values are the records' msg.id headers.
func values(rs []*kgo.Record) []string {
	vs := make([]string, len(rs))
	for i, r := range rs {
		vs[i] = string(r.Headers[0].Value)
	}
	return vs
}

// verdict is the part of a result that the relay decides by.
func verdict(r messaging.PublishResult) string {
	s := r.Completion.String()
	if r.Failure != nil {
		s += " " + r.Failure.Category.String() + " " + r.Failure.Code
	} else {
		s += " " + r.Evidence.Level.String()
	}
	return s + " " + r.Evidence.Transmission.String() + " " + r.Routing.String()
}

func expect(t testing.TB, r messaging.PublishResult, want string) {
	t.Helper()
	if got := verdict(r); got != want {
		t.Errorf("verdict:\n got %s\nwant %s", got, want)
	}
}

func expectAll(t testing.TB, rs []messaging.PublishResult, want string) {
	t.Helper()
	for i, r := range rs {
		if got := verdict(r); got != want {
			t.Errorf("verdict of message %d of %d:\n got %s\nwant %s", i, len(rs), got, want)
			return
		}
	}
}

const confirmedVerdict = "CONFIRMED BROKER_ACK TRANSMITTED NOT_APPLICABLE"

func contextFor(d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), d)
}
