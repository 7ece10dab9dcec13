package platform_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

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
