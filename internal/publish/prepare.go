package publish

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/backend-skeleton/relay/messaging"
)

// Limits of a payload in bytes. A profile may raise the logical one; the hard one is fixed, the database holds it too.
const (
	DefaultMaxBytes = 1 << 20
	HardMaxBytes    = 8 << 20
)

// rawContentType is the content type of raw bytes that name none.
const rawContentType = "application/octet-stream"

// Rules are what the first half of the way asks of a message: the same at the insert of an outbox row and at a direct
// publish.
type Rules struct {
	// Type and Version of the destination that the writer was made for.
	Type    messaging.MessageType
	Version messaging.SchemaVersion
	// Producer is the writing service.
	Producer messaging.ProducerID
	// Profile of the destination.
	Profile messaging.Profile
	// Codecs by which payloads are encoded; the first serves what names no content type.
	Codecs []messaging.Codec
	// Trace reads the trace context of a call; nil keeps the envelope's own.
	Trace func(context.Context) messaging.TraceContext
	// Baggage lists the keys of the trace's baggage that may travel; nil lets all of them.
	Baggage []string
}

// Payload is a message's payload after encoding.
type Payload struct {
	ContentType string
	Bytes       []byte
	// Null is a tombstone.
	Null   bool
	Schema *messaging.SchemaReference
}

// Complete fills what the envelope leaves out: id, type, version; producer and trace context are the platform's. It
// refuses a type and version that are not the destination's.
func Complete[T any](ctx context.Context, r *Rules, e *messaging.Envelope[T]) error {
	if e.ID.IsZero() {
		e.ID = messaging.NewMessageID()
	}
	if e.Type == "" {
		e.Type = r.Type
	}
	if e.Version == 0 {
		e.Version = r.Version
	}
	if e.Type != r.Type || e.Version != r.Version {
		return invalid("type and version are not those of the destination")
	}
	e.Producer = r.Producer
	if r.Trace != nil {
		e.Trace = r.Trace(ctx)
	}
	if r.Baggage != nil {
		e.Trace = e.Trace.WithBaggage(r.Baggage)
	}
	e.Trace = e.Trace.Sanitized()
	return nil
}

// Encode validates a completed envelope and encodes its payload within the limits. Errors name the field and never its
// value: [messaging.ErrValidation], [messaging.ErrHeaderRejected], [messaging.ErrSerialization],
// [messaging.ErrSchemaIncompatible], [messaging.ErrTooLarge].
func Encode[T any](ctx context.Context, r *Rules, e *messaging.Envelope[T]) (Payload, error) {
	if err := e.Validate(r.Profile); err != nil {
		return Payload{}, err
	}
	return encode(ctx, r, e)
}

func encode[T any](ctx context.Context, r *Rules, e *messaging.Envelope[T]) (Payload, error) {
	value := any(e.Payload)
	switch value.(type) {
	case messaging.Tombstone:
		if e.OrderingKey == "" && e.PartitionKey == "" {
			return Payload{}, invalid("a tombstone without key deletes nothing")
		}
		return Payload{ContentType: rawContentType, Null: true}, nil
	case io.Reader:
		return Payload{}, invalid("a payload that can be read once cannot be sent again; read it into messaging.Raw")
	}
	codec, err := r.codec(e.ContentType, value)
	if err != nil {
		return Payload{}, err
	}
	data, ref, err := codec.Encode(ctx, e.Type, e.Version, value)
	if err != nil {
		return Payload{}, serialization(err)
	}
	if err := checkSize(len(data), r.Profile); err != nil {
		return Payload{}, err
	}
	return Payload{ContentType: codec.ContentType(), Bytes: data, Schema: ref}, nil
}

// codec chooses by the envelope's content type, the profile's, the catalogue's, and takes the first one else. Raw bytes
// that name no content type are application/octet-stream.
func (r *Rules) codec(envelope string, value any) (messaging.Codec, error) {
	wanted := envelope
	if wanted == "" {
		if _, raw := value.(messaging.Raw); raw {
			wanted = rawContentType
		} else if wanted = r.Profile.ContentType; wanted == "" {
			wanted = r.Profile.Types[r.Type].ContentType
		}
	}
	codec := Codec(r.Codecs, wanted)
	if codec == nil {
		return nil, invalid("no codec is registered for the content type")
	}
	return codec, nil
}

// Codec finds the codec of a content type, the first one for none; nil if there is no such codec.
func Codec(codecs []messaging.Codec, contentType string) messaging.Codec {
	for _, c := range codecs {
		if contentType == "" || c.ContentType() == contentType {
			return c
		}
	}
	return nil
}

// invalid is a rule of this package that a message breaks.
func invalid(rule string) error {
	return &messaging.Error{
		Op: "prepare", Kind: messaging.ErrValidation,
		Failure: messaging.NewFailure(messaging.CategoryValidation, messaging.CodeInvalidMessage, rule),
	}
}

// checkSize refuses a payload that may not travel in the message. Between the logical and the hard limit it would belong
// into an object store.
func checkSize(size int, p messaging.Profile) error {
	limit := p.MaxBytes
	if limit <= 0 {
		limit = DefaultMaxBytes
	}
	if p.OffloadBytes > 0 {
		limit = min(limit, p.OffloadBytes)
	}
	if limit = min(limit, HardMaxBytes); int64(size) <= limit {
		return nil
	}
	return &messaging.Error{
		Op: "encode", Kind: messaging.ErrTooLarge,
		Failure: messaging.NewFailure(messaging.CategoryValidation, messaging.CodeTooLarge,
			fmt.Sprintf("the payload has %d bytes, the limit is %d, and no claim-check store is configured", size, limit)),
	}
}

// serialization gives a codec's error its kind where it has none itself. The outage of what a codec asks (a registry) is
// none of the message's.
func serialization(err error) error {
	var f *messaging.Failure
	if errors.As(err, &f) && f.Category == messaging.CategoryTransientInfrastructure {
		return err
	}
	for _, kind := range []error{
		messaging.ErrSerialization, messaging.ErrTooLarge, messaging.ErrValidation, messaging.ErrSchemaIncompatible,
	} {
		if errors.Is(err, kind) {
			return err
		}
	}
	return fmt.Errorf("%w: %w", messaging.ErrSerialization, err)
}
