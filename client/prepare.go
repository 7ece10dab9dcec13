package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"time"
	"unicode/utf8"

	"github.com/backend-skeleton/relay/messaging"
)

// Limits of a payload in bytes. The logical one may be raised by a profile, the hard one by nobody: the database holds
// it too.
const (
	DefaultMaxBytes = 1 << 20
	HardMaxBytes    = 8 << 20
)

// Prepared is a message that was validated and encoded. It may be inserted once.
type Prepared struct{ row *row }

// ID is the message's id, the zero id for the zero Prepared.
func (p Prepared) ID() messaging.MessageID {
	if p.row == nil {
		return messaging.MessageID{}
	}
	return p.row.id
}

// row is a message as the table holds it. Optional texts are empty, optional times zero.
type row struct {
	id                         messaging.MessageID
	destination, typ           string
	version                    int32
	contentType, producer      string
	orderingKey, partitionKey  string
	aggregateType, aggregateID string
	correlation, causation     string
	tenant                     string
	trace                      messaging.TraceContext
	schemaRef, headers         string
	payload                    []byte
	occurredAt, availableAt    time.Time
}

// Prepare validates and encodes a message, so that everything that can be refused is refused before BEGIN. The client
// fills what the envelope leaves out: id, type, version, content type; it always sets producer and, where the Config can
// read it, the trace context.
//
// Errors, each naming the field and never its value: [messaging.ErrValidation], [messaging.ErrSerialization],
// [messaging.ErrTooLarge] for a payload over the limit of the destination's profile.
func (o *Outbox[T]) Prepare(ctx context.Context, e messaging.Envelope[T], x *EnqueueOptions) (Prepared, error) {
	const op = "prepare"
	if x == nil {
		x = &EnqueueOptions{}
	}
	profile := o.c.profile(o.d.Name)
	if err := o.complete(ctx, &e, x, profile); err != nil {
		return Prepared{}, refused(op, messaging.ErrValidation, o.d.Name, err)
	}
	if err := errors.Join(e.Validate(profile), x.validate()); err != nil {
		return Prepared{}, refused(op, nil, o.d.Name, err)
	}
	codec, err := o.c.codec(e.ContentType, profile.ContentType)
	if err != nil {
		return Prepared{}, refused(op, messaging.ErrValidation, o.d.Name, err)
	}
	payload, ref, err := codec.Encode(ctx, e.Type, e.Version, e.Payload)
	if err != nil {
		return Prepared{}, refused(op, serialization(err), o.d.Name, err)
	}
	if err := checkSize(len(payload), profile); err != nil {
		return Prepared{}, refused(op, messaging.ErrTooLarge, o.d.Name, err)
	}
	r, err := newRow(&e, ref)
	if err != nil {
		return Prepared{}, refused(op, messaging.ErrSerialization, o.d.Name, err)
	}
	r.destination, r.contentType, r.payload = string(o.d.Name), codec.ContentType(), payload
	r.availableAt, r.aggregateType, r.aggregateID = micros(x.AvailableAt), x.AggregateType, x.AggregateID
	return Prepared{row: r}, nil
}

// complete fills what the envelope leaves out and refuses what contradicts the destination.
func (o *Outbox[T]) complete(ctx context.Context, e *messaging.Envelope[T], x *EnqueueOptions, p messaging.Profile) error {
	if e.ID.IsZero() {
		e.ID = messaging.NewMessageID()
	}
	if e.Type == "" {
		e.Type = o.d.Type
	}
	if e.Version == 0 {
		e.Version = o.d.Version
	}
	if e.Type != o.d.Type || e.Version != o.d.Version {
		return errors.New("type and version are not those of the destination")
	}
	if e.Version > math.MaxInt32 {
		return errors.New("the schema version is over 2147483647")
	}
	if e.OrderingKey == "" && p.KeyFromAggregate {
		e.OrderingKey = x.AggregateID
	}
	e.Producer = o.c.producer
	if o.c.trace != nil {
		e.Trace = o.c.trace(ctx)
	}
	e.Trace = e.Trace.Sanitized()
	return nil
}

func (x *EnqueueOptions) validate() error {
	if x.AggregateType != "" {
		if err := messaging.CheckKey("aggregate type", x.AggregateType); err != nil {
			return err
		}
		if utf8.RuneCountInString(x.AggregateType) > messaging.MaxAggregateType {
			return fmt.Errorf("%w: aggregate type has more than %d characters", messaging.ErrValidation, messaging.MaxAggregateType)
		}
	}
	if x.AggregateID != "" {
		if err := messaging.CheckKey("aggregate id", x.AggregateID); err != nil {
			return err
		}
	}
	if !x.AvailableAt.IsZero() && (x.AvailableAt.UTC().Year() < 1 || x.AvailableAt.UTC().Year() > 9999) {
		return fmt.Errorf("%w: available at is outside the years 1 to 9999", messaging.ErrValidation)
	}
	return nil
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
	return messaging.NewFailure(messaging.CategoryValidation, messaging.CodeTooLarge,
		fmt.Sprintf("the payload has %d bytes, the limit is %d, and no claim-check store is configured", size, limit))
}

// serialization gives the kind of a codec's error where it has none itself.
func serialization(err error) error {
	for _, kind := range []error{messaging.ErrSerialization, messaging.ErrTooLarge, messaging.ErrValidation, messaging.ErrSchemaIncompatible} {
		if errors.Is(err, kind) {
			return nil
		}
	}
	return messaging.ErrSerialization
}

func newRow[T any](e *messaging.Envelope[T], ref *messaging.SchemaReference) (*row, error) {
	headers, err := e.Headers.MarshalJSON()
	if err != nil {
		return nil, err
	}
	r := &row{
		id: e.ID, typ: string(e.Type), version: int32(e.Version), producer: string(e.Producer),
		orderingKey: e.OrderingKey, partitionKey: e.PartitionKey,
		correlation: string(e.Correlation), causation: e.Causation.String(), tenant: string(e.Tenant), trace: e.Trace,
		headers: string(headers), occurredAt: micros(e.OccurredAt),
	}
	if ref != nil {
		text, err := json.Marshal(ref)
		if err != nil {
			return nil, err
		}
		r.schemaRef = string(text)
	}
	return r, nil
}

// micros cuts a time to what PostgreSQL keeps; else one driver would cut it and another round it.
func micros(t time.Time) time.Time { return t.Truncate(time.Microsecond) }
