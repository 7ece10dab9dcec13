package messaging_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/backend-skeleton/relay/messaging"
)

type orderCreated struct{ ID string }

var created = messaging.Destination[*orderCreated]{Name: "order-events", Type: "order.created", Version: 1}

func valid() messaging.Envelope[*orderCreated] {
	e := created.New(&orderCreated{ID: "1"})
	e.Producer = "orders"
	return e
}

func TestDestinationNew(t *testing.T) {
	t.Parallel()
	a, b := valid(), valid()
	if a.ID.IsZero() || a.ID == b.ID || a.Type != created.Type || a.Version != created.Version {
		t.Errorf("envelope %+v", a)
	}
	if err := a.Validate(messaging.Profile{}); err != nil {
		t.Error(err)
	}
}

func TestValidateNamesTheFieldNeverTheValue(t *testing.T) {
	t.Parallel()
	const secret = "s3cret"
	profile := messaging.Profile{KeyRequired: true, Types: map[messaging.MessageType]messaging.TypeRule{
		"order.created": {Kind: messaging.KindIntegrationEvent, Versions: []messaging.SchemaVersion{1, 2}},
		"order.ship":    {Kind: messaging.KindCommand},
	}}
	base := func() messaging.Envelope[*orderCreated] {
		e := valid()
		e.OrderingKey, e.OccurredAt = secret, time.Now()
		return e
	}
	long := strings.Repeat(secret, 200)
	for field, spoil := range map[string]func(*messaging.Envelope[*orderCreated]){
		"message type":        func(e *messaging.Envelope[*orderCreated]) { e.Type = "Order" },
		"message type is not": func(e *messaging.Envelope[*orderCreated]) { e.Type = "order.deleted" },
		"schema version":      func(e *messaging.Envelope[*orderCreated]) { e.Version = 0 },
		"schema version is":   func(e *messaging.Envelope[*orderCreated]) { e.Version = 3 },
		"producer":            func(e *messaging.Envelope[*orderCreated]) { e.Producer = "" },
		"payload":             func(e *messaging.Envelope[*orderCreated]) { e.Payload = nil },
		"ordering key":        func(e *messaging.Envelope[*orderCreated]) { e.OrderingKey = "" },
		"ordering key has":    func(e *messaging.Envelope[*orderCreated]) { e.OrderingKey = long },
		"partition key":       func(e *messaging.Envelope[*orderCreated]) { e.PartitionKey = long },
		"correlation id":      func(e *messaging.Envelope[*orderCreated]) { e.Correlation = secret + "\n" },
		"tenant":              func(e *messaging.Envelope[*orderCreated]) { e.Tenant = messaging.Tenant(long) },
		"content type":        func(e *messaging.Envelope[*orderCreated]) { e.ContentType = long },
		"occurred at":         func(e *messaging.Envelope[*orderCreated]) { e.OccurredAt = time.Time{} },
		"occurred at is": func(e *messaging.Envelope[*orderCreated]) {
			e.OccurredAt = time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)
		},
	} {
		e := base()
		spoil(&e)
		err := e.Validate(profile)
		if !errors.Is(err, messaging.ErrValidation) || !strings.Contains(err.Error(), field) {
			t.Errorf("%s: error %v", field, err)
		} else if strings.Contains(err.Error(), secret) {
			t.Errorf("%s: the error quotes the value: %v", field, err)
		}
	}
	e := base()
	if err := e.Validate(profile); err != nil {
		t.Errorf("valid: %v", err)
	}
	e.Type, e.OccurredAt = "order.ship", time.Time{}
	if err := e.Validate(profile); err != nil {
		t.Errorf("a command without occurred at: %v", err)
	}
}

func TestValidateNilPayloads(t *testing.T) {
	t.Parallel()
	refused := func(name string, err error) {
		t.Helper()
		if !errors.Is(err, messaging.ErrValidation) {
			t.Errorf("%s: error %v", name, err)
		}
	}
	refused("interface", validateOf[any](nil))
	refused("slice", validateOf[messaging.Raw](nil))
	refused("map", validateOf[map[string]string](nil))
	for name, err := range map[string]error{
		"empty raw": validateOf(messaging.Raw{}), "zero struct": validateOf(orderCreated{}), "zero number": validateOf(0),
	} {
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func validateOf[T any](payload T) error {
	e := messaging.Destination[T]{Name: "d", Type: "a.b", Version: 1}.New(payload)
	e.Producer = "p"
	return e.Validate(messaging.Profile{})
}

func TestTraceContextSanitized(t *testing.T) {
	t.Parallel()
	in := messaging.TraceContext{Parent: "00-a-b-01", State: "a=b\r\n", Baggage: strings.Repeat("x", 8193)}
	if got, want := in.Sanitized(), (messaging.TraceContext{Parent: "00-a-b-01"}); got != want {
		t.Errorf("got %+v", got)
	}
	if got := (messaging.TraceContext{State: "a=b"}).Sanitized(); got != (messaging.TraceContext{}) {
		t.Errorf("a state without parent: %+v", got)
	}
}

func TestPayloadHash(t *testing.T) {
	t.Parallel()
	const empty = "sha-256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
	if got := messaging.HashPayload(nil); got != empty {
		t.Errorf("got %s", got)
	}
	if _, err := messaging.ParsePayloadHash(empty); err != nil {
		t.Error(err)
	}
	for _, s := range []string{"", empty[8:], strings.ToUpper(empty), empty + "0", "md5:" + empty[8:], strings.Replace(empty, "e", "g", 1)} {
		if _, err := messaging.ParsePayloadHash(s); !errors.Is(err, messaging.ErrValidation) {
			t.Errorf("%q is accepted", s)
		}
	}
}
