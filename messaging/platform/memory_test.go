package platform_test

import (
	"context"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"

	"github.com/backend-skeleton/relay/messaging"
	"github.com/backend-skeleton/relay/messaging/platform"
	"github.com/backend-skeleton/relay/messaging/transport"
)

// desk is an adapter that publishes into memory. What it can do, and what it answers, a test decides.
type desk struct {
	mu       sync.Mutex // guards what follows
	able     messaging.Capabilities
	err      error // of Capabilities
	asked    int
	sent     []transport.Message
	to       []transport.Endpoint
	level    messaging.ConfirmationLevel
	closed   []string // in order: publisher, adapter
	settings []map[string]any
	hold     chan struct{} // if set, publishes wait for it
}

func newDesk() *desk {
	d := &desk{level: messaging.LevelReplicationOrPersistenceAck}
	v := reflect.ValueOf(&d.able).Elem()
	for i := range v.NumField() {
		v.Field(i).SetBool(true)
	}
	return d
}

func (d *desk) make(_ context.Context, settings map[string]any) (transport.Adapter, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.settings = append(d.settings, settings)
	return d, nil
}

func (d *desk) Capabilities(context.Context, transport.Endpoint) (messaging.Capabilities, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.asked++
	return d.able, d.err
}

func (d *desk) Publisher(_ context.Context, es []transport.Endpoint) (transport.Publisher, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.to = append(d.to, es...)
	return deskPublisher{d}, nil
}

func (d *desk) Subscribe(context.Context, transport.Subscription, transport.Sink) (transport.Consumer, error) {
	return nil, messaging.ErrCapabilityUnavailable
}

func (d *desk) Inspect(context.Context, []transport.Endpoint) ([]transport.Drift, error) {
	return nil, nil
}

func (d *desk) Close(context.Context) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closed = append(d.closed, "adapter")
	return nil
}

type deskPublisher struct{ d *desk }

func (p deskPublisher) Publish(_ context.Context, _ transport.Endpoint, ms []transport.Message, done func(int, messaging.PublishResult)) {
	p.d.mu.Lock()
	hold, level := p.d.hold, p.d.level
	p.d.sent = append(p.d.sent, ms...)
	p.d.mu.Unlock()
	if hold != nil {
		<-hold
	}
	for i := range ms {
		done(i, messaging.PublishResult{
			Completion: messaging.Confirmed, Routing: messaging.RoutingNotApplicable, Attempts: 1,
			Evidence: messaging.Evidence{Transmission: messaging.Transmitted, BrokerAccepted: true, Level: level},
		})
	}
}

func (p deskPublisher) Close(context.Context) error {
	p.d.mu.Lock()
	defer p.d.mu.Unlock()
	p.d.closed = append(p.d.closed, "publisher")
	return nil
}

// file writes relay.yaml, and files beside it, into a directory of the test.
func file(t testing.TB, text string, beside ...string) string {
	t.Helper()
	dir := t.TempDir()
	beside = append([]string{"relay.yaml", text}, beside...)
	for i := 0; i < len(beside); i += 2 {
		name := filepath.Join(dir, filepath.FromSlash(beside[i]))
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(beside[i+1]), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(dir, "relay.yaml")
}

// local is the file of the tests; the kind memory is an adapter of theirs.
const local = `
messaging:
  environment: local
  brokers:
    main: {kind: memory, seeds: ["memory:1"]}
  destinations:
    order-events: {broker: main, kind: EVENT_STREAM, physical: {topic: orders}, producer: {timeout: 2s}, guarantees: {ordering: KEY}, outbox: {keyless: allow}, grants: [BATCH_PUBLISH]}
    email-work: {broker: main, kind: WORK_QUEUE, physical: {queue: mails}, producer: {timeout: 2s}, grants: [RAW_BYTES, DELAYED_PUBLISH]}
`

func open(t testing.TB, d *desk, text string, change ...func(*platform.Options)) *platform.Platform {
	t.Helper()
	o := platform.Options{
		File: file(t, text), Env: []string{}, Producer: "orders",
		Adapters: map[string]platform.NewAdapter{"memory": d.make, "kafka": d.make},
	}
	for _, c := range change {
		c(&o)
	}
	p, err := platform.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return p
}

// edit replaces a text that must be there.
func edit(t testing.TB, text, old, young string) string {
	t.Helper()
	if !strings.Contains(text, old) {
		t.Fatalf("there is no %q", old)
	}
	return strings.ReplaceAll(text, old, young)
}
