package consume

import (
	"encoding/json"
	"errors"
	"strconv"
	"time"

	"github.com/backend-skeleton/relay/messaging"
	"github.com/backend-skeleton/relay/messaging/transport"
)

// prepare reads a delivery's headers into in and finds who handles it. A verdict that is given says that nobody does.
func (k *Consumer) prepare(i *item, in *Incoming) (*Route, verdict) {
	m := &i.d.Message
	var err error
	if !i.read {
		i.fields, err = transport.DecodeHeaders(m.Header)
		i.read = err == nil
		k.countAttempts(i)
	}
	f := &i.fields
	if mine := headerOf(m, transport.HeaderForConsumer); mine != "" && mine != string(k.c.Name) {
		return nil, verdict{given: true, outcome: outcomeSkipped}
	}
	refuse := func(c messaging.Category, code, text string) (*Route, verdict) {
		return nil, failed(messaging.NewFailure(c, code, text))
	}
	switch {
	case errors.Is(err, transport.ErrForeign):
		return refuse(messaging.CategoryValidation, messaging.CodeForeignMessage, "it has no valid msg.id and msg.type")
	case err != nil:
		return refuse(messaging.CategoryDeserialization, messaging.CodeInvalidHeader, "a header of the msg. family is missing or malformed")
	case k.c.Tenants.Check(f.Tenant) != nil:
		return refuse(messaging.CategoryValidation, messaging.CodeTenantNotAllowed, "the tenant is not in the allow-list")
	case int64(len(m.Value)) > k.c.MaxBytes:
		return refuse(messaging.CategoryDeserialization, messaging.CodeTooLarge, "the payload has "+strconv.Itoa(len(m.Value))+" bytes, "+strconv.FormatInt(k.c.MaxBytes, 10)+" are allowed")
	}
	route := k.routes[routeKey{f.Type, f.SchemaVersion}]
	if route == nil {
		return nil, k.unhandled(f)
	}
	if f.ClaimCheck != "" {
		if !json.Valid([]byte(f.ClaimCheck)) {
			return refuse(messaging.CategoryDeserialization, messaging.CodeInvalidHeader, "the claim check is not JSON")
		}
		return refuse(messaging.CategoryConfiguration, messaging.CodeClaimCheckUnavailable, "the payload lies in an object store that is not configured")
	}
	*in = Incoming{Message: m, Fields: f, Meta: k.meta(i), box: in.box}
	for _, codec := range k.c.Codecs {
		if codec.ContentType() == f.ContentType {
			in.Codec = codec
		}
	}
	if in.Codec == nil && route.Payload != Tombstone {
		return refuse(messaging.CategoryDeserialization, messaging.CodeUnsupportedContentType, "no codec is registered for the content type")
	}
	if f.SchemaReference != "" {
		in.Schema = &messaging.SchemaReference{}
		if json.Unmarshal([]byte(f.SchemaReference), in.Schema) != nil {
			return refuse(messaging.CategoryDeserialization, messaging.CodeInvalidHeader, "the schema reference is not JSON")
		}
	}
	return route, verdict{}
}

// unhandled is what becomes of a message that no route takes.
func (k *Consumer) unhandled(f *transport.WireFields) verdict {
	rule, known := k.c.Types[f.Type]
	switch {
	case k.c.Types != nil && !known:
		return failed(messaging.NewFailure(messaging.CategoryDeserialization, messaging.CodeUnknownType, "the message type is not in the catalogue"))
	case known && !rule.Has(f.SchemaVersion):
		return failed(messaging.NewFailure(messaging.CategoryDeserialization, messaging.CodeSchemaVersionUnknown, "the catalogue does not have the version"))
	case k.c.ParkUnhandled:
		return failed(messaging.NewFailure(messaging.CategoryConfiguration, messaging.CodeUnhandledType, "the consumer has no handler for the type and version"))
	default:
		return verdict{given: true, outcome: outcomeIgnored}
	}
}

// countAttempts takes over what earlier deliveries of the message cost.
func (k *Consumer) countAttempts(i *item) {
	if i.attempt > 0 {
		return
	}
	i.attempt = 1
	if k.c.Policy.Mode == messaging.ModeBrokerDelayed {
		i.attempt += max(i.d.Failed, 0)
	}
	if before := headerOf(&i.d.Message, transport.HeaderRetryAttempt); before != "" {
		if n, err := strconv.Atoi(before); err == nil && n > 0 && n < 1<<30 {
			i.attempt += n
		}
	}
	i.first = headerOf(&i.d.Message, transport.HeaderFirstFailureAt)
}

func (k *Consumer) meta(i *item) messaging.DeliveryMetadata {
	position := &i.d.Position
	if position.Text == "" {
		position = nil
	}
	return messaging.DeliveryMetadata{
		Destination: k.c.Endpoint.Name, Consumer: k.c.Name, Attempt: i.attempt,
		Redelivered: i.d.Redelivered || i.attempt > 1, Position: position, Unit: i.d.Unit.Name, Group: k.c.Group,
		ReceivedAt: i.d.ReceivedAt, RedriveID: i.fields.RedriveID, RedriveCount: i.fields.RedriveCount,
	}
}

// headerOf gives the first header of a name, "" where there is none.
func headerOf(m *transport.Message, name string) string {
	for _, h := range m.Header {
		if h.Name == name {
			return string(h.Value)
		}
	}
	return ""
}

// dueAt is when a message of a retry stage may be handled; the zero time for any other.
func dueAt(m *transport.Message) time.Time {
	text := headerOf(m, transport.HeaderRetryDueAt)
	if text == "" {
		return time.Time{}
	}
	due, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return time.Time{}
	}
	return due
}
