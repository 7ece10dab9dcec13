package consume

import (
	"context"

	"github.com/backend-skeleton/relay/messaging"
	"github.com/backend-skeleton/relay/messaging/transport"
)

// Route is the handler of one type and version.
type Route struct {
	Destination messaging.DestinationName
	Type        messaging.MessageType
	Version     messaging.SchemaVersion
	// Inbox names the consumer of the inbox that the handler reserves in, "" for none.
	Inbox messaging.ConsumerName
	// Payload is what the handler takes, for checks at start.
	Payload Payload

	way  way
	read func(ctx context.Context, in *Incoming) (any, error)
	// one of
	handle func(ctx context.Context, d any) messaging.Result
	manual func(ctx context.Context, d any, s messaging.SettlementController)
	batch  func(ctx context.Context, ds []any) []messaging.ItemResult
	answer func(ctx context.Context, d any, in *Incoming) messaging.Result
}

type way uint8

const (
	typed way = iota
	manual
	batched
	answered
)

// Manual tells whether the handler settles by itself, Batched whether it takes several at once, Answers whether it replies.
func (r Route) Manual() bool  { return r.way == manual }
func (r Route) Batched() bool { return r.way == batched }  //nolint:revive // see Manual
func (r Route) Answers() bool { return r.way == answered } //nolint:revive // see Manual

// Payload is the kind of a handler's payload type.
type Payload uint8

// The kinds.
const (
	Value     Payload = iota
	Raw               // messaging.Raw
	Tombstone         // messaging.Tombstone
)

type routeKey struct {
	t messaging.MessageType
	v messaging.SchemaVersion
}

func (r Route) key() routeKey { return routeKey{r.Type, r.Version} }

// Incoming is a delivery whose headers are read.
type Incoming struct {
	Message *transport.Message
	Fields  *transport.WireFields
	Codec   messaging.Codec
	Schema  *messaging.SchemaReference
	Meta    messaging.DeliveryMetadata
	box     any // a *messaging.Delivery to read into, out of which takeFrom took what was there; nil for none
}

// On makes the route of a handler.
func On[T any](d messaging.Destination[T], h messaging.Handler[T]) Route {
	r := routeOf(d)
	if bound, ok := h.(messaging.InboxBound); ok {
		r.Inbox = bound.InboxConsumer()
	}
	r.handle = func(ctx context.Context, d any) messaging.Result { return h.Handle(ctx, takeFrom[T](d)) }
	return r
}

// OnManual makes the route of a handler that settles by itself.
func OnManual[T any](d messaging.Destination[T], h messaging.ManualHandler[T]) Route {
	r := routeOf(d)
	r.way = manual
	r.manual = func(ctx context.Context, d any, s messaging.SettlementController) {
		h.HandleManual(ctx, takeFrom[T](d), s)
	}
	return r
}

// OnBatch makes the route of a handler of several deliveries.
func OnBatch[T any](d messaging.Destination[T], h messaging.BatchHandler[T]) Route {
	r := routeOf(d)
	r.way = batched
	if bound, ok := h.(messaging.InboxBound); ok {
		r.Inbox = bound.InboxConsumer()
	}
	r.batch = func(ctx context.Context, ds []any) []messaging.ItemResult {
		all := make([]messaging.Delivery[T], len(ds))
		for i, d := range ds {
			all[i] = takeFrom[T](d)
		}
		return h.HandleBatch(ctx, all)
	}
	return r
}

// OnAnswer makes the route of a handler whose answer is sent by reply, before the request is settled. reply gives the
// failure of what was not confirmed.
func OnAnswer[Q, R any](d messaging.Destination[Q], h func(context.Context, messaging.Delivery[Q]) (R, error),
	reply func(ctx context.Context, in *Incoming, answer R) error,
) Route {
	r := routeOf(d)
	r.way = answered
	r.answer = func(ctx context.Context, d any, in *Incoming) messaging.Result {
		var answer R
		return messaging.FromError(func(ctx context.Context, d messaging.Delivery[Q]) (err error) {
			if answer, err = h(ctx, d); err != nil {
				return err
			}
			return reply(ctx, in, answer)
		}).Handle(ctx, takeFrom[Q](d))
	}
	return r
}

func routeOf[T any](d messaging.Destination[T]) Route {
	r := Route{Destination: d.Name, Type: d.Type, Version: d.Version}
	var zero T
	switch any(zero).(type) {
	case messaging.Raw:
		r.Payload = Raw
	case messaging.Tombstone:
		r.Payload = Tombstone
	}
	r.read = readAs[T](r.Payload)
	return r
}

// readAs decodes a payload.
func readAs[T any](p Payload) func(context.Context, *Incoming) (any, error) {
	return func(ctx context.Context, in *Incoming) (any, error) {
		f := in.Fields
		if in.Message.NullValue != (p == Tombstone) {
			return nil, messaging.NewFailure(messaging.CategoryDeserialization, messaging.CodeMalformedPayload, "a null value and a payload type do not fit")
		}
		d, _ := in.box.(*messaging.Delivery[T])
		if d == nil {
			d = new(messaging.Delivery[T])
			in.box = d
		}
		*d = messaging.Delivery[T]{
			Envelope: messaging.Envelope[T]{
				ID: f.ID, Type: f.Type, Version: f.SchemaVersion, Producer: f.Producer, ProducedAt: f.ProducedAt, OccurredAt: f.OccurredAt,
				Correlation: f.Correlation, Causation: f.Causation, ContentType: f.ContentType, PartitionKey: f.PartitionKey,
				OrderingKey: f.OrderingKey, Tenant: f.Tenant, Trace: f.Trace, Headers: f.Headers,
			},
			Meta: in.Meta, Hash: messaging.HashPayload(in.Message.Value),
		}
		if p == Tombstone {
			return d, nil
		}
		if err := in.Codec.Decode(ctx, f.Type, f.SchemaVersion, in.Schema, in.Message.Value, &d.Payload); err != nil {
			*d = messaging.Delivery[T]{}
			return nil, err
		}
		return d, nil
	}
}

// takeFrom empties the box of a delivery, so that nothing of the message outlives its handler there.
func takeFrom[T any](box any) messaging.Delivery[T] {
	d := box.(*messaging.Delivery[T])
	taken := *d
	*d = messaging.Delivery[T]{}
	return taken
}
