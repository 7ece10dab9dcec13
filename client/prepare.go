package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/backend-skeleton/relay/internal/publish"
	"github.com/backend-skeleton/relay/messaging"
)

// Limits of a payload in bytes. The logical one may be raised by a profile, the hard one by nobody: the database holds
// it too.
const (
	DefaultMaxBytes = publish.DefaultMaxBytes
	HardMaxBytes    = publish.HardMaxBytes
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
	rules := o.rules(profile)
	if e.OrderingKey == "" && profile.KeyFromAggregate {
		e.OrderingKey = x.AggregateID
	}
	if err := publish.Complete(ctx, &rules, &e); err != nil {
		return Prepared{}, refused(op, nil, o.d.Name, err)
	}
	payload, err := publish.Encode(ctx, &rules, &e)
	if err := errors.Join(err, x.validate()); err != nil {
		return Prepared{}, refused(op, nil, o.d.Name, err)
	}
	r, err := newRow(&e, payload.Schema)
	if err != nil {
		return Prepared{}, refused(op, messaging.ErrSerialization, o.d.Name, err)
	}
	r.destination, r.contentType, r.payload = string(o.d.Name), payload.ContentType, payload.Bytes
	r.availableAt, r.aggregateType, r.aggregateID = micros(x.AvailableAt), x.AggregateType, x.AggregateID
	if o.raw {
		o.c.logger.Info("audit", "action", "SCHEMA_VALIDATION_BYPASSED", "destination", o.d.Name)
	}
	return Prepared{row: r}, nil
}

// rules are the destination's part of what is asked of a message.
func (o *Outbox[T]) rules(p messaging.Profile) publish.Rules {
	return publish.Rules{
		Type: o.d.Type, Version: o.d.Version, Producer: o.c.producer, Profile: p, Codecs: o.c.codecs, Trace: o.c.trace,
	}
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
