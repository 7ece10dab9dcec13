package platform_test

import (
	"context"
	"encoding/binary"
	"errors"
	"testing"

	"github.com/backend-skeleton/relay/client"
	"github.com/backend-skeleton/relay/messaging"
	"github.com/backend-skeleton/relay/messaging/platform"
	"github.com/backend-skeleton/relay/messaging/transport"
)

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
