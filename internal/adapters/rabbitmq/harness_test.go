package rabbitmq

import (
	"context"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/backend-skeleton/relay/internal/brokertest"
	"github.com/backend-skeleton/relay/messaging"
	"github.com/backend-skeleton/relay/messaging/transport"
)

// patience bounds every wait of a test for something that must come.
const patience = 20 * time.Second

// testLogger shows the edge's log with RABBIT_LOG=1.
func testLogger() *slog.Logger {
	if os.Getenv("RABBIT_LOG") != "" {
		return slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug}))
	}
	return slog.New(slog.DiscardHandler)
}

// configFor connects to a virtual host as its administrator.
func configFor(t testing.TB, v *brokertest.Vhost) Config {
	t.Helper()
	amqpURL, err := url.Parse(v.URL())
	if err != nil {
		t.Fatal("the broker's address is not a URL")
	}
	api, err := url.Parse(v.API())
	if err != nil {
		t.Fatal("the management API's address is not a URL")
	}
	password, _ := amqpURL.User.Password()
	apiPassword, _ := api.User.Password()
	return Config{
		Name: "test", Seeds: []string{v.Addr()}, VHost: v.Name, Logger: testLogger(), ClientID: t.Name(),
		Credentials: Credentials{Username: amqpURL.User.Username(), Password: secret(password)},
		Management:  Management{URL: api.Scheme + "://" + api.Host, Username: api.User.Username(), Password: secret(apiPassword)},
	}
}

// open makes adapter and publisher, closed with the test.
func open(t testing.TB, c Config, es ...transport.Endpoint) (*Adapter, *Publisher) {
	t.Helper()
	a, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	p, err := a.Publisher(t.Context(), es)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		began := time.Now()
		if err := p.Close(ctx); err != nil {
			t.Errorf("close the publisher: %v", err)
		}
		if err := a.Close(ctx); err != nil {
			t.Errorf("close the adapter: %v", err)
		}
		if took := time.Since(began); took > 6*time.Second {
			t.Errorf("closing took %v", took)
		}
	})
	return a, p.(*Publisher)
}

// to is an endpoint; settings are pairs of name and value for its producer.
func to(exchange, key string, settings ...any) transport.Endpoint {
	e := transport.Endpoint{Name: "orders", Physical: map[string]string{"exchange": exchange, "routing-key": key}, Producer: map[string]any{}}
	for i := 0; i+1 < len(settings); i += 2 {
		e.Producer[settings[i].(string)] = settings[i+1]
	}
	return e
}

// byPartitionKey is an endpoint whose messages bring their own routing key.
func byPartitionKey(exchange string) transport.Endpoint {
	return transport.Endpoint{Name: "orders", Physical: map[string]string{"exchange": exchange, "routing-key-from": "partition-key"}}
}

// message makes one as the relay does.
func message(key, body string) transport.Message {
	f := transport.WireFields{
		ID: messaging.NewMessageID(), Type: "order.created", SchemaVersion: 1, Producer: "orders",
		ProducedAt: time.Now(), ContentType: "application/json", PartitionKey: key,
	}
	m := transport.Message{ID: f.ID, Value: []byte(body), Header: transport.EncodeHeaders(&f), PublishedAt: f.ProducedAt}
	m.Key, m.NullKey = transport.RecordKey("", key)
	return m
}

func messages(n int, key func(i int) string) []transport.Message {
	ms := make([]transport.Message, n)
	for i := range ms {
		ms[i] = message(key(i), fmt.Sprintf(`{"n":%d}`, i))
	}
	return ms
}

func noKey(int) string { return "" }

// verdicts collects what done said and holds it to "exactly once per index".
type verdicts struct {
	t       testing.TB
	mu      sync.Mutex
	results []messaging.PublishResult
	given   []bool
	left    int
	all     chan struct{}
}

func newVerdicts(t testing.TB, n int) *verdicts {
	return &verdicts{t: t, results: make([]messaging.PublishResult, n), given: make([]bool, n), left: n, all: make(chan struct{})}
}

func (v *verdicts) done(i int, r messaging.PublishResult) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.given[i] {
		v.t.Errorf("done was called twice for message %d", i)
		return
	}
	if r.Completion == 0 || r.Evidence.Transmission == 0 || r.Evidence.Level == 0 || r.Routing == 0 ||
		(r.Failure == nil) != (r.Completion == messaging.Confirmed) {
		v.t.Errorf("message %d has an incomplete result %+v", i, r)
	}
	v.given[i], v.results[i] = true, r
	if v.left--; v.left == 0 {
		close(v.all)
	}
}

// missing counts the messages without a verdict.
func (v *verdicts) missing() int {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.left
}

func (v *verdicts) wait(limit time.Duration) []messaging.PublishResult {
	v.t.Helper()
	select {
	case <-v.all:
	case <-time.After(limit):
		v.t.Fatalf("%d of %d messages have no verdict after %v", v.missing(), len(v.results), limit)
	}
	return v.results
}

// publish waits for all verdicts.
func publish(t testing.TB, p *Publisher, e transport.Endpoint, ms ...transport.Message) []messaging.PublishResult {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	v := newVerdicts(t, len(ms))
	p.Publish(ctx, e, ms, v.done)
	return v.wait(patience)
}

// brief publishes with little time to send.
func brief(t testing.TB, p *Publisher, limit time.Duration, e transport.Endpoint, ms ...transport.Message) *verdicts {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	v := newVerdicts(t, len(ms))
	began := time.Now()
	p.Publish(ctx, e, ms, v.done)
	if took := time.Since(began); took > limit+2*time.Second {
		t.Errorf("Publish blocked %v, its context ended after %v", took, limit)
	}
	return v
}

// want holds a result against completion, code and transmission.
func want(t testing.TB, r messaging.PublishResult, c messaging.Completion, code string, tr messaging.Transmission) {
	t.Helper()
	got := ""
	if r.Failure != nil {
		got = r.Failure.Code
	}
	if r.Completion != c || got != code || r.Evidence.Transmission != tr {
		t.Errorf("got %v %s %v, want %v %s %v", r.Completion, got, r.Evidence.Transmission, c, code, tr)
	}
}

func wantConfirmed(t testing.TB, rs ...messaging.PublishResult) {
	t.Helper()
	for i, r := range rs {
		if r.Completion != messaging.Confirmed {
			t.Fatalf("message %d: %v %v, want CONFIRMED", i, r.Completion, r.Failure)
		}
	}
}

func tally(rs []messaging.PublishResult) map[string]int {
	n := map[string]int{}
	for _, r := range rs {
		if r.Failure == nil {
			n[r.Completion.String()]++
		} else {
			n[r.Completion.String()+" "+r.Failure.Code]++
		}
	}
	return n
}

// retry publishes until each message is confirmed, as the relay does.
func retry(t testing.TB, p *Publisher, e transport.Endpoint, ms ...transport.Message) {
	t.Helper()
	brokertest.Eventually(t, patience, "every message is confirmed", func() bool {
		var left []transport.Message
		for i, r := range publish(t, p, e, ms...) {
			if r.Completion != messaging.Confirmed {
				left = append(left, ms[i])
			}
		}
		ms = left
		return len(ms) == 0
	})
}
