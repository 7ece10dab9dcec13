package platform_test

import (
	"context"
	"encoding/binary"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/backend-skeleton/relay/client"
	"github.com/backend-skeleton/relay/messaging"
	"github.com/backend-skeleton/relay/messaging/platform"
	"github.com/backend-skeleton/relay/messaging/transport"
)

type order struct {
	ID string `json:"id"`
}

var created = messaging.Destination[order]{Name: "order-events", Type: "order.created", Version: 1}

func TestPublishFromAFile(t *testing.T) {
	t.Parallel()
	d := newDesk()
	p := open(t, d, local, func(o *platform.Options) {
		o.Trace = func(context.Context) messaging.TraceContext {
			return messaging.TraceContext{Parent: "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", Baggage: "user=s3cret"}
		}
	})
	publisher, err := platform.NewPublisher(p, created)
	if err != nil {
		t.Fatal(err)
	}
	if r, err := publisher.Publish(t.Context(), created.New(order{ID: "1"}), nil); err != nil || r.Completion != messaging.Confirmed {
		t.Fatalf("%+v, %v", r, err)
	}
	f, err := transport.DecodeHeaders(d.sent[0].Header)
	if err != nil || f.Producer != "orders" || f.Trace.Parent == "" || f.Trace.Baggage != "" {
		t.Errorf("%+v, %v", f, err)
	}
	if len(d.to) != 1 || d.to[0].Physical["topic"] != "orders" || d.settings[0]["name"] != "main" || d.settings[0]["role"] != "producer" {
		t.Errorf("endpoints %+v, settings %v", d.to, d.settings)
	}
	if err := p.Close(t.Context()); err != nil || !slices.Equal(d.closed, []string{"publisher", "adapter"}) {
		t.Errorf("%v, %v", err, d.closed)
	}
	if _, err := publisher.Publish(t.Context(), created.New(order{ID: "1"}), nil); !errors.Is(err, messaging.ErrClosed) {
		t.Errorf("after the close: %v", err)
	}
	if _, err := platform.NewPublisher(p, created); !errors.Is(err, messaging.ErrClosed) {
		t.Errorf("a publisher after the close: %v", err)
	}
}

// A service's tests run its own relay.yaml: the built-in kind is replaced.
func TestABuiltInKindMayBeReplaced(t *testing.T) {
	t.Parallel()
	d := newDesk()
	p := open(t, d, `
messaging:
  environment: local
  brokers: {main: {kind: kafka, seeds: ["kafka-1:9092"]}}
  destinations: {order-events: {broker: main, kind: EVENT_STREAM, physical: {topic: orders}}}
`)
	publisher, err := platform.NewPublisher(p, created)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := publisher.Publish(t.Context(), created.New(order{ID: "1"}), nil); err != nil || len(d.sent) != 1 {
		t.Errorf("%v", err)
	}
}

// A destination that comes after the first message gets a publisher of its own.
func TestALateDestinationIsServed(t *testing.T) {
	t.Parallel()
	d := newDesk()
	p := open(t, d, local)
	first, err := platform.NewPublisher(p, created)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := first.Publish(t.Context(), created.New(order{}), nil); err != nil {
		t.Fatal(err)
	}
	mails := messaging.Destination[order]{Name: "email-work", Type: "order.created", Version: 1}
	late, err := platform.NewPublisher(p, mails)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := late.Publish(t.Context(), mails.New(order{}), nil); err != nil {
		t.Fatal(err)
	}
	if len(d.to) != 2 || d.to[1].Name != "email-work" || len(d.sent) != 2 {
		t.Errorf("%+v", d.to)
	}
	if err := p.Close(t.Context()); err != nil || !slices.Equal(d.closed, []string{"publisher", "publisher", "adapter"}) {
		t.Errorf("%v, %v", err, d.closed)
	}
}

// asking is a desk with reply queues: it answers every request, twice.
type asking struct {
	*desk
	replies chan transport.Delivery
}

func (a asking) ReplyQueue(ctx context.Context) (string, <-chan transport.Delivery, error) {
	go func() {
		defer close(a.replies)
		<-ctx.Done()
	}()
	return "replies-1", a.replies, nil
}

func (a asking) Publisher(ctx context.Context, es []transport.Endpoint) (transport.Publisher, error) {
	p, err := a.desk.Publisher(ctx, es)
	return answering{p, a}, err
}

type answering struct {
	transport.Publisher
	a asking
}

func (p answering) Publish(ctx context.Context, to transport.Endpoint, ms []transport.Message, done func(int, messaging.PublishResult)) {
	p.Publisher.Publish(ctx, to, ms, done)
	for _, m := range ms {
		f := transport.WireFields{
			ID: messaging.NewMessageID(), Type: "price.quoted", SchemaVersion: 1, Producer: "prices", ProducedAt: time.Now(),
			ContentType: "application/json", Causation: messaging.CausationID{MessageID: m.ID},
		}
		for range 2 {
			p.a.replies <- transport.Delivery{Message: transport.Message{ID: f.ID, Value: []byte(`{"id":"` + m.ReplyTo + `"}`), Header: transport.EncodeHeaders(&f)}}
		}
	}
}

func TestRequestAndReply(t *testing.T) {
	t.Parallel()
	d, replies := newDesk(), make(chan transport.Delivery, 16) // one queue for both adapters of the broker
	p := open(t, d, edit(t, local, "BATCH_PUBLISH", "REQUEST_REPLY"), func(o *platform.Options) {
		o.Adapters = map[string]platform.NewAdapter{"memory": func(_ context.Context, settings map[string]any) (transport.Adapter, error) {
			d.settings = append(d.settings, settings)
			return asking{d, replies}, nil
		}}
	})
	quoted := messaging.Destination[order]{Name: "quotes", Type: "price.quoted", Version: 1}
	requester, err := platform.NewRequester(p, created, quoted)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	reply, err := requester.Request(ctx, created.New(order{ID: "1"}))
	if err != nil || reply.Payload.ID != "replies-1" {
		t.Errorf("%+v, %v", reply, err)
	}
	if len(d.settings) != 2 || d.settings[0]["role"] != "producer" || d.settings[1]["role"] != "consumer" {
		t.Errorf("identities %v", d.settings)
	}
}

func TestOpenSaysEverythingAtOnce(t *testing.T) {
	t.Parallel()
	text := edit(t, edit(t, local, "timeout: 2s", "timeout: soon"), "environment: local", "environment: prod")
	_, err := platform.Open(t.Context(), platform.Options{File: file(t, text), Env: []string{}, Adapters: map[string]platform.NewAdapter{"memory": newDesk().make}})
	var refused *platform.ConfigError
	if !errors.As(err, &refused) || !errors.Is(err, messaging.ErrConfiguration) || len(refused.Findings) != 3 {
		t.Fatalf("%v", err)
	}
	for i, path := range []string{"messaging.environment", "messaging.destinations.order-events.producer.timeout", "messaging.destinations.email-work.producer.timeout"} {
		if f := refused.Findings[i]; f.Path != path || f.Line == 0 || f.Message == "" {
			t.Errorf("%+v, want %s", f, path)
		}
	}
	// Without the adapter the kind is not known.
	if _, err := platform.Open(t.Context(), platform.Options{File: file(t, local), Env: []string{}}); !errors.Is(err, messaging.ErrConfiguration) || !strings.Contains(err.Error(), `"memory" is not one of kafka`) {
		t.Errorf("%v", err)
	}
	if _, err := platform.Open(t.Context(), platform.Options{Env: []string{}}); !errors.Is(err, messaging.ErrConfiguration) {
		t.Errorf("no file: %v", err)
	}
}

func TestConstructorsRefuse(t *testing.T) {
	t.Parallel()
	const catalogue = "  catalogue: {order.created: {kind: INTEGRATION_EVENT, versions: [2]}}\n"
	typed := func(p *platform.Platform) error { _, err := platform.NewPublisher(p, created); return err }
	for name, c := range map[string]struct {
		text  string
		able  func(*messaging.Capabilities)
		make  func(p *platform.Platform) error
		kind  error
		text2 string // stands in the error
	}{
		"unknown destination": {local, nil, func(p *platform.Platform) error {
			_, err := platform.NewPublisher(p, messaging.Destination[order]{Name: "orders", Type: "order.created", Version: 1})
			return err
		}, messaging.ErrConfiguration, "known are email-work, order-events"},
		"version not in the catalogue": {local + catalogue, nil, typed, messaging.ErrConfiguration, "does not have this version"},
		"confirmation not proved":      {local, func(c *messaging.Capabilities) { c.ReplicationOrPersistenceEvidence = false }, typed, messaging.ErrConfiguration, "order-events.producer.confirmation (line 7)"},
		"order of keys not kept":       {local, func(c *messaging.Capabilities) { c.KeyedOrdering = false }, typed, messaging.ErrConfiguration, "order-events.guarantees.ordering (line 7)"},
		"batch without grant": {local, nil, func(p *platform.Platform) error {
			_, err := platform.NewBatchPublisher(p, messaging.Destination[order]{Name: "email-work", Type: "order.created", Version: 1})
			return err
		}, messaging.ErrCapabilityUnavailable, "BATCH_PUBLISH"},
		"requests without grant": {local, nil, func(p *platform.Platform) error {
			_, err := platform.NewRequester(p, created, created)
			return err
		}, messaging.ErrCapabilityUnavailable, "REQUEST_REPLY"},
		"requests without reply queues": {edit(t, local, "BATCH_PUBLISH", "REQUEST_REPLY"), nil, func(p *platform.Platform) error {
			_, err := platform.NewRequester(p, created, created)
			return err
		}, messaging.ErrCapabilityUnavailable, "no reply queues"},
	} {
		d := newDesk()
		if c.able != nil {
			c.able(&d.able)
		}
		if err := c.make(open(t, d, c.text)); !errors.Is(err, c.kind) || !strings.Contains(err.Error(), c.text2) {
			t.Errorf("%s: %v", name, err)
		}
	}
	secret := edit(t, local, `seeds: ["memory:1"]`, `seeds: ["memory:1"], producer-identity: p`) +
		"security: {credentials: {p: {mechanism: PLAIN, username: u, password: \"env:ABSENT\"}}}\n"
	if err := typed(open(t, newDesk(), secret)); !errors.Is(err, messaging.ErrConfiguration) || !strings.Contains(err.Error(), "security.credentials.p.password (line 9): env:ABSENT") {
		t.Errorf("a secret that is not there: %v", err)
	}
	p := open(t, newDesk(), local, func(o *platform.Options) { o.Producer = "" })
	if err := typed(p); !errors.Is(err, messaging.ErrConfiguration) {
		t.Errorf("no producer: %v", err)
	}
}

func TestGrantedAbilities(t *testing.T) {
	t.Parallel()
	d := newDesk()
	p := open(t, d, local)
	batch, err := platform.NewBatchPublisher(p, created)
	if err != nil {
		t.Fatal(err)
	}
	if rs, err := batch.PublishBatch(t.Context(), []messaging.Envelope[order]{created.New(order{}), created.New(order{})}, nil); err != nil || len(rs) != 2 {
		t.Errorf("%v", err)
	}
	mails := messaging.Destination[messaging.Raw]{Name: "email-work", Type: "email.requested", Version: 1}
	later, err := platform.NewDelayedPublisher(p, mails)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := later.PublishAfter(t.Context(), mails.New(messaging.Raw("x")), time.Minute, nil); err != nil || d.sent[2].Delay != time.Minute {
		t.Errorf("%v", err)
	}
}

// In production a constructor waits for the broker and says so; the start's context bounds it.
func TestProductionWaitsForTheProof(t *testing.T) {
	t.Parallel()
	text := edit(t, local, "environment: local", "environment: staging")
	text = edit(t, text, `seeds: ["memory:1"]`, `seeds: ["memory:1"], tls: {}, producer-identity: p`) +
		"  catalogue: {order.created: {kind: COMMAND, versions: [1]}}\nsecurity: {credentials: {p: {mechanism: PLAIN, username: u, password: \"env:P\"}}}\n"
	name := file(t, text)
	synctest.Test(t, func(t *testing.T) {
		d := newDesk()
		d.err = messaging.ErrBrokerUnavailable
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		p, err := platform.Open(ctx, platform.Options{File: name, Env: []string{"P=x"}, Producer: "orders", Logger: slog.New(slog.DiscardHandler), Adapters: map[string]platform.NewAdapter{"memory": d.make}})
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			<-time.After(time.Minute) // virtual time
			d.mu.Lock()
			defer d.mu.Unlock()
			d.err = nil
		}()
		start := time.Now()
		if _, err := platform.NewPublisher(p, created); err != nil || time.Since(start) < time.Minute {
			t.Errorf("%v after %v", err, time.Since(start))
		}
		d.mu.Lock()
		d.err = messaging.ErrBrokerUnavailable
		d.mu.Unlock()
		if _, err := platform.NewPublisher(p, messaging.Destination[order]{Name: "email-work", Type: "order.created", Version: 1}); !errors.Is(err, messaging.ErrBrokerUnavailable) {
			t.Errorf("after the start's end: %v", err)
		}
		if err := p.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// A weak confirmation stops the destination until the broker proves the level again.
func TestTheProofIsRenewed(t *testing.T) {
	t.Parallel()
	name := file(t, local)
	synctest.Test(t, func(t *testing.T) {
		d := newDesk()
		p, err := platform.Open(t.Context(), platform.Options{File: name, Env: []string{}, Producer: "orders", Logger: slog.New(slog.DiscardHandler), Adapters: map[string]platform.NewAdapter{"memory": d.make}})
		if err != nil {
			t.Fatal(err)
		}
		publisher, err := platform.NewPublisher(p, created)
		if err != nil {
			t.Fatal(err)
		}
		d.mu.Lock()
		d.level = messaging.LevelBrokerAck
		d.mu.Unlock()
		if r, err := publisher.Publish(t.Context(), created.New(order{}), nil); r.Completion != messaging.Confirmed || !errors.Is(err, messaging.ErrConfiguration) {
			t.Errorf("%+v, %v", r, err)
		}
		if _, err := publisher.Publish(t.Context(), created.New(order{}), nil); !errors.Is(err, messaging.ErrPublishRejected) {
			t.Errorf("%v", err)
		}
		rec := httptest.NewRecorder()
		p.Handler().ServeHTTP(rec, httptest.NewRequest(http.MethodGet, "/readyz", nil))
		if !strings.Contains(rec.Body.String(), "PROOF_LOST") {
			t.Errorf("%s", rec.Body)
		}
		d.mu.Lock()
		d.level = messaging.LevelReplicationOrPersistenceAck
		d.mu.Unlock()
		<-time.After(time.Minute) // virtual time
		if _, err := publisher.Publish(t.Context(), created.New(order{}), nil); err != nil {
			t.Errorf("after the proof: %v", err)
		}
		if err := p.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// The end: publishes that are open are waited for, later ones refused, connections closed last.
func TestRunDrains(t *testing.T) {
	t.Parallel()
	d := newDesk()
	d.hold = make(chan struct{})
	p := open(t, d, local)
	publisher, err := platform.NewPublisher(p, created)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- p.Run(ctx) }()
	verdict := make(chan error, 1)
	publisher.PublishAsync(t.Context(), created.New(order{}), nil, func(_ messaging.PublishResult, err error) { verdict <- err })
	stop()
	eventually(t, func() bool {
		_, err := publisher.Publish(t.Context(), created.New(order{}), &messaging.PublishOptions{Timeout: time.Millisecond})
		return errors.Is(err, messaging.ErrClosed)
	})
	close(d.hold)
	if err := <-verdict; err != nil {
		t.Errorf("what was open: %v", err)
	}
	if err := <-ended; err != nil || !slices.Equal(d.closed, []string{"publisher", "adapter"}) {
		t.Errorf("%v, %v", err, d.closed)
	}
	if err := p.Run(t.Context()); !errors.Is(err, messaging.ErrClosed) {
		t.Errorf("a second run: %v", err)
	}
}

func eventually(t *testing.T, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !ok(); {
		if time.Now().After(deadline) {
			t.Fatal("it did not happen")
		}
		<-time.After(time.Millisecond) // between two looks
	}
}

// A refusal is counted and logged with how far it got, and nothing of the message.
func TestVerdictsAreCountedAndLogged(t *testing.T) {
	t.Parallel()
	var log lockedBuffer
	p := open(t, newDesk(), local, func(o *platform.Options) { o.Logger = slog.New(slog.NewTextHandler(&log, nil)) })
	publisher, err := platform.NewPublisher(p, created)
	if err != nil {
		t.Fatal(err)
	}
	bad := created.New(order{ID: "s3cret"})
	bad.Tenant = "s3cret"
	if _, err := publisher.Publish(t.Context(), bad, nil); !errors.Is(err, messaging.ErrPublishRejected) {
		t.Fatal(err)
	}
	if text := log.String(); !strings.Contains(text, "level=WARN") || !strings.Contains(text, "code=TENANT_NOT_ALLOWED") || !strings.Contains(text, "stage=CREATED") || strings.Contains(text, "s3cret") {
		t.Errorf("log: %s", text)
	}
	rec := httptest.NewRecorder()
	p.Handler().ServeHTTP(rec, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	for _, want := range []string{
		`messaging_publish_messages_total{destination="order-events",outcome="REJECTED"} 1`,
		`messaging_publish_attempts_total{broker="main",destination="order-events",outcome="REJECTED"} 0`,
	} {
		if !strings.Contains(rec.Body.String(), want) {
			t.Errorf("no %s", want)
		}
	}
}

type lockedBuffer struct {
	mu   sync.Mutex
	text strings.Builder
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

func TestPages(t *testing.T) {
	t.Parallel()
	p := open(t, newDesk(), local)
	publisher, err := platform.NewPublisher(p, created)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := publisher.Publish(t.Context(), created.New(order{}), nil); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		"/healthz": `"UP"`, "/readyz": `"ready": true`, "/info": `"name": "orders"`, "/actuator/messaging": `"state": "CREATED"`,
		"/metrics": `messaging_publish_attempts_total{broker="main",destination="order-events",outcome="CONFIRMED"} 1`,
	} {
		rec := httptest.NewRecorder()
		p.Handler().ServeHTTP(rec, httptest.NewRequest(http.MethodGet, path, nil))
		if rec.Code != http.StatusOK || !strings.Contains(rec.Body.String(), want) {
			t.Errorf("%s: %d, no %s in %s", path, rec.Code, want, rec.Body)
		}
		rec = httptest.NewRecorder()
		p.Handler().ServeHTTP(rec, httptest.NewRequest(http.MethodPost, path, nil))
		if rec.Code != http.StatusMethodNotAllowed {
			t.Errorf("POST %s: %d", path, rec.Code)
		}
	}
}

type listener struct {
	mu     sync.Mutex
	events []platform.PublishEvent
	audits []platform.AuditEvent
}

func (l *listener) ObservePublish(e platform.PublishEvent) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.events = append(l.events, e)
}

func (l *listener) ObserveAudit(e platform.AuditEvent) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.audits = append(l.audits, e)
}

func TestHooks(t *testing.T) {
	t.Parallel()
	l := &listener{}
	p := open(t, newDesk(), local, func(o *platform.Options) { o.Observe = []any{l} })
	mails := messaging.Destination[messaging.Raw]{Name: "email-work", Type: "email.requested", Version: 1}
	publisher, err := platform.NewPublisher(p, mails)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := publisher.Publish(t.Context(), mails.New(messaging.Raw("x")), nil); err != nil {
		t.Fatal(err)
	}
	if len(l.events) != 1 || l.events[0].Stage != "BROKER_ACCEPTED" || l.events[0].Broker != "main" || l.events[0].Result.Completion != messaging.Confirmed {
		t.Errorf("%+v", l.events)
	}
	if len(l.audits) != 1 || l.audits[0].Action != "SCHEMA_VALIDATION_BYPASSED" || l.audits[0].Destination != "email-work" {
		t.Errorf("%+v", l.audits)
	}
}

// binaryCodec stands for the codecs to come: it is binary, asks a registry, and writes a schema reference.
type binaryCodec struct{ down bool }

func (binaryCodec) ContentType() string { return "application/avro" }

func (c binaryCodec) Encode(_ context.Context, t messaging.MessageType, v messaging.SchemaVersion, value any) ([]byte, *messaging.SchemaReference, error) {
	if c.down {
		return nil, nil, &messaging.Error{Op: "encode", Kind: messaging.ErrBrokerUnavailable, Failure: messaging.NewFailure(messaging.CategoryTransientInfrastructure, messaging.CodeBrokerUnreachable, "the registry does not answer")}
	}
	o, ok := value.(order)
	if !ok {
		return nil, nil, messaging.ErrSerialization
	}
	return append(binary.BigEndian.AppendUint32([]byte{0}, 42), o.ID...), &messaging.SchemaReference{Registry: "main", Subject: string(t), Version: int(v), ID: 42}, nil
}

func (binaryCodec) Decode(_ context.Context, _ messaging.MessageType, _ messaging.SchemaVersion, ref *messaging.SchemaReference, data []byte, into any) error {
	target, ok := into.(*order)
	if !ok || ref == nil || ref.ID != 42 || len(data) < 5 {
		return messaging.ErrSerialization
	}
	target.ID = string(data[5:])
	return nil
}

// The ports carry a binary codec with a registry as they are: the word of the file, the content type, the schema
// reference on the wire, and a registry's outage that is none of the message's.
func TestTheCodecPortCarriesOtherFormats(t *testing.T) {
	t.Parallel()
	d := newDesk()
	text := edit(t, local, "physical: {topic: orders}", "physical: {topic: orders}, schema: {codec: avro}")
	p := open(t, d, text, func(o *platform.Options) { o.Codecs = []messaging.Codec{binaryCodec{}} })
	publisher, err := platform.NewPublisher(p, created)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := publisher.Publish(t.Context(), created.New(order{ID: "1"}), nil); err != nil {
		t.Fatal(err)
	}
	m := d.sent[0]
	f, err := transport.DecodeHeaders(m.Header)
	if err != nil || f.ContentType != "application/avro" || f.SchemaReference != `{"registry":"main","subject":"order.created","version":1,"id":42}` || string(m.Value) != "\x00\x00\x00\x00*1" {
		t.Errorf("%+v, %q, %v", f, m.Value, err)
	}
	p = open(t, d, text, func(o *platform.Options) { o.Codecs = []messaging.Codec{binaryCodec{down: true}} })
	if publisher, err = platform.NewPublisher(p, created); err != nil {
		t.Fatal(err)
	}
	r, err := publisher.Publish(t.Context(), created.New(order{ID: "1"}), nil)
	if !errors.Is(err, messaging.ErrPublishRejected) || !r.Failure.Retryable || r.Failure.Category != messaging.CategoryTransientInfrastructure || errors.Is(err, messaging.ErrSerialization) {
		t.Errorf("%+v, %v", r.Failure, err)
	}
	// Without the codec the word is refused.
	if _, err := platform.Open(t.Context(), platform.Options{File: file(t, text), Env: []string{}, Adapters: map[string]platform.NewAdapter{"memory": d.make}}); !errors.Is(err, messaging.ErrConfiguration) {
		t.Errorf("%v", err)
	}
}

// Direct publishing and the outbox client hold a payload against the same schemas.
func TestSchemasOfTheCatalogueHold(t *testing.T) {
	t.Parallel()
	const schema = `{"type":"object","properties":{"id":{"maxLength":3}}}`
	text := local + "  catalogue: {order.created: {kind: COMMAND, versions: [1], schema: schemas/order.created}}\n"
	p := open(t, newDesk(), local, func(o *platform.Options) { o.File = file(t, text, "schemas/order.created/v1/schema.json", schema) })
	publisher, err := platform.NewPublisher(p, created)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := publisher.Publish(t.Context(), created.New(order{ID: "123"}), nil); err != nil {
		t.Error(err)
	}
	if _, err := publisher.Publish(t.Context(), created.New(order{ID: "1234"}), nil); !errors.Is(err, messaging.ErrSchemaIncompatible) {
		t.Errorf("%v", err)
	}
	c, err := client.New(client.Config{Producer: "orders", Profiles: p, Codecs: p.Codecs()})
	if err != nil {
		t.Fatal(err)
	}
	outbox, err := client.NewOutbox(c, created)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := outbox.Prepare(t.Context(), created.New(order{ID: "1234"}), nil); !errors.Is(err, messaging.ErrSchemaIncompatible) {
		t.Errorf("%v", err)
	}
	if _, err := platform.Open(t.Context(), platform.Options{File: file(t, text), Env: []string{}, Adapters: map[string]platform.NewAdapter{"memory": newDesk().make}}); !errors.Is(err, messaging.ErrConfiguration) {
		t.Errorf("without the schemas: %v", err)
	}
}
