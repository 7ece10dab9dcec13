package publish_test

import (
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/backend-skeleton/relay/internal/publish"
	"github.com/backend-skeleton/relay/messaging"
	"github.com/backend-skeleton/relay/messaging/transport"
)

func only(grants ...string) func(string) bool {
	return func(g string) bool { return slices.Contains(grants, g) }
}

// What is not granted or not there is refused where the publisher is made, never weakened in silence.
func TestConstructorsAreTheGate(t *testing.T) {
	t.Parallel()
	type make func(d *publish.Destination) error
	typed := func(d *publish.Destination) error { _, err := publish.New(d, created); return err }
	batch := func(d *publish.Destination) error { _, err := publish.NewBatch(d, created); return err }
	later := func(d *publish.Destination) error { _, err := publish.NewDelayed(d, created); return err }
	bytes := func(d *publish.Destination) error {
		_, err := publish.New(d, messaging.Destination[messaging.Raw]{Name: "files", Type: "file.stored", Version: 1})
		return err
	}
	null := func(d *publish.Destination) error {
		_, err := publish.New(d, messaging.Destination[messaging.Tombstone]{Name: "files", Type: "file.stored", Version: 1})
		return err
	}
	once := func(d *publish.Destination) error {
		_, err := publish.New(d, messaging.Destination[io.Reader]{Name: "files", Type: "file.stored", Version: 1})
		return err
	}
	ask := func(d *publish.Destination) error {
		_, err := publish.NewRequester(d, created, created, nil)
		return err
	}
	delays := func() (messaging.Capabilities, bool) { return messaging.Capabilities{DelayedDelivery: true}, true }
	catalogue := func(versions ...messaging.SchemaVersion) map[messaging.MessageType]messaging.TypeRule {
		return map[messaging.MessageType]messaging.TypeRule{created.Type: {Kind: messaging.KindCommand, Versions: versions}}
	}
	for name, c := range map[string]struct {
		make   make
		change func(*publish.Destination)
		kind   error // nil: it is made
	}{
		"typed":                    {typed, func(*publish.Destination) {}, nil},
		"in the catalogue":         {typed, func(d *publish.Destination) { d.Rules.Profile.Types = catalogue(1, 2) }, nil},
		"type not in it":           {typed, func(d *publish.Destination) { d.Rules.Profile.Types = map[messaging.MessageType]messaging.TypeRule{} }, messaging.ErrConfiguration},
		"version not in it":        {typed, func(d *publish.Destination) { d.Rules.Profile.Types = catalogue(2) }, messaging.ErrConfiguration},
		"codec missing":            {typed, func(d *publish.Destination) { d.Rules.Profile.ContentType = "application/avro" }, messaging.ErrConfiguration},
		"batch without grant":      {batch, func(d *publish.Destination) { d.Granted = only("RAW_BYTES") }, messaging.ErrCapabilityUnavailable},
		"batch":                    {batch, func(d *publish.Destination) { d.Granted = only("BATCH_PUBLISH") }, nil},
		"delay without grant":      {later, func(d *publish.Destination) { d.Able = delays }, messaging.ErrCapabilityUnavailable},
		"delay without capability": {later, func(d *publish.Destination) { d.Granted = all }, messaging.ErrCapabilityUnavailable},
		"delay":                    {later, func(d *publish.Destination) { d.Able, d.Granted = delays, only("DELAYED_PUBLISH") }, nil},
		"delay of a silent broker": {later, func(d *publish.Destination) {
			d.Granted, d.Able = all, func() (messaging.Capabilities, bool) { return messaging.Capabilities{}, false }
		}, messaging.ErrBrokerUnavailable},
		"raw without grant":     {bytes, func(*publish.Destination) {}, messaging.ErrCapabilityUnavailable},
		"raw":                   {bytes, func(d *publish.Destination) { d.Granted = only("RAW_BYTES") }, nil},
		"null without grant":    {null, func(*publish.Destination) {}, messaging.ErrCapabilityUnavailable},
		"null":                  {null, func(d *publish.Destination) { d.Granted = only("KAFKA_TOMBSTONE") }, nil},
		"read once":             {once, func(d *publish.Destination) { d.Granted = all }, messaging.ErrConfiguration},
		"request without grant": {ask, func(*publish.Destination) {}, messaging.ErrCapabilityUnavailable},
	} {
		b := newBench(t, &edge{}, 0)
		c.change(b.Destination)
		if err := c.make(b.Destination); !errors.Is(err, c.kind) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A payload that can be read once is refused also where the Go type does not tell.
func TestAReaderInsideAnInterfaceIsRefused(t *testing.T) {
	t.Parallel()
	b := newBench(t, &edge{}, 0)
	p, err := publish.New(b.Destination, messaging.Destination[any]{Name: created.Name, Type: "file.stored", Version: 1})
	if err != nil {
		t.Fatal(err)
	}
	e := messaging.Envelope[any]{Payload: strings.NewReader("once")}
	if _, err := p.Publish(t.Context(), e, nil); !errors.Is(err, messaging.ErrValidation) || len(b.edge.sent()) != 0 {
		t.Errorf("%v", err)
	}
}

func TestB29_NullEmptyAndTombstoneStayApart(t *testing.T) {
	t.Parallel()
	b := newBench(t, &edge{}, 0)
	b.Granted = all
	files, err := publish.New(b.Destination, messaging.Destination[messaging.Raw]{Name: created.Name, Type: "file.stored", Version: 1})
	if err != nil {
		t.Fatal(err)
	}
	gone, err := publish.New(b.Destination, messaging.Destination[messaging.Tombstone]{Name: created.Name, Type: "file.stored", Version: 1})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := files.Publish(t.Context(), messaging.Envelope[messaging.Raw]{Payload: messaging.Raw{}}, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := gone.Publish(t.Context(), messaging.Envelope[messaging.Tombstone]{OrderingKey: "file-1"}, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := gone.Publish(t.Context(), messaging.Envelope[messaging.Tombstone]{}, nil); !errors.Is(err, messaging.ErrValidation) {
		t.Errorf("a tombstone without key: %v", err)
	}
	if _, err := files.Publish(t.Context(), messaging.Envelope[messaging.Raw]{}, nil); !errors.Is(err, messaging.ErrValidation) {
		t.Errorf("nil bytes: %v", err)
	}
	sent := b.edge.sent()
	if len(sent) != 2 || sent[0].NullValue || sent[0].Value == nil || len(sent[0].Value) != 0 {
		t.Errorf("empty became %+v", sent[0])
	}
	if !sent[1].NullValue || string(sent[1].Key) != "file-1" {
		t.Errorf("a tombstone became %+v", sent[1])
	}
	if !slices.Equal(b.audit, []string{"SCHEMA_VALIDATION_BYPASSED"}) {
		t.Errorf("audit %v", b.audit)
	}
}

func TestPublishAfterHandsTheDelayOver(t *testing.T) {
	t.Parallel()
	b := newBench(t, &edge{}, 0)
	b.Granted = all
	b.Able = func() (messaging.Capabilities, bool) { return messaging.Capabilities{DelayedDelivery: true}, true }
	p, err := publish.NewDelayed(b.Destination, created)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.PublishAfter(t.Context(), event(""), time.Minute, nil); err != nil || b.edge.sent()[0].Delay != time.Minute {
		t.Errorf("%v", err)
	}
	for _, d := range []time.Duration{-1, 8 * 24 * time.Hour} {
		if _, err := p.PublishAfter(t.Context(), event(""), d, nil); !errors.Is(err, messaging.ErrValidation) {
			t.Errorf("%v: %v", d, err)
		}
	}
}

type hinting struct{ edge }

func (h *hinting) Hint(_ transport.Endpoint, m *transport.Message, _ messaging.Hint) error {
	m.Key, m.NullKey = []byte("hinted"), false
	return nil
}

func TestHintsGoToAnAdapterThatKnowsThem(t *testing.T) {
	t.Parallel()
	b := newBench(t, &edge{}, 0)
	h := &hinting{}
	b.Granted, b.Broker = all, publish.NewBroker("kafka", h, 0, publish.Hooks{})
	p, err := publish.New(b.Destination, created)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Publish(t.Context(), event(""), &messaging.PublishOptions{Hint: hint{}}); err != nil || string(h.sent()[0].Key) != "hinted" {
		t.Errorf("%v", err)
	}
}
