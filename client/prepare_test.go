package client_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/backend-skeleton/relay/client"
	"github.com/backend-skeleton/relay/messaging"
)

func TestPrepareRefuses(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 321)
	for name, c := range map[string]struct {
		profile  messaging.Profile
		envelope messaging.Envelope[order]
		options  *client.EnqueueOptions
		kind     error
		says     string
	}{
		"another type":       {envelope: messaging.Envelope[order]{Type: "order.deleted"}, kind: messaging.ErrValidation, says: "type and version"},
		"another version":    {envelope: messaging.Envelope[order]{Version: 2}, kind: messaging.ErrValidation, says: "type and version"},
		"a long key":         {envelope: messaging.Envelope[order]{OrderingKey: long}, kind: messaging.ErrValidation, says: "ordering key"},
		"no key":             {profile: messaging.Profile{KeyRequired: true}, kind: messaging.ErrValidation, says: "ordering key"},
		"a long aggregate":   {options: &client.EnqueueOptions{AggregateID: long}, kind: messaging.ErrValidation, says: "aggregate id"},
		"a long kind of it":  {options: &client.EnqueueOptions{AggregateType: long[:161]}, kind: messaging.ErrValidation, says: "aggregate type"},
		"a far time":         {options: &client.EnqueueOptions{AvailableAt: time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)}, kind: messaging.ErrValidation, says: "available at"},
		"an unknown content": {envelope: messaging.Envelope[order]{ContentType: "text/plain"}, kind: messaging.ErrValidation, says: "no codec"},
		"not in the catalogue": {
			profile: messaging.Profile{Types: map[messaging.MessageType]messaging.TypeRule{}}, kind: messaging.ErrValidation, says: "catalogue",
		},
		"an event without time": {
			profile: messaging.Profile{Types: map[messaging.MessageType]messaging.TypeRule{"order.created": {Kind: messaging.KindDomainEvent}}},
			kind:    messaging.ErrValidation, says: "occurred at",
		},
		"over the limit": {
			envelope: messaging.Envelope[order]{Payload: order{Text: strings.Repeat("x", client.DefaultMaxBytes)}},
			kind:     messaging.ErrTooLarge, says: "no claim-check store is configured",
		},
		"over the limit of the profile": {
			profile: messaging.Profile{MaxBytes: 10}, envelope: messaging.Envelope[order]{Payload: order{ID: 10000}},
			kind: messaging.ErrTooLarge, says: "has 12 bytes, the limit is 10",
		},
		"over the hard limit": {
			profile:  messaging.Profile{MaxBytes: 1 << 30},
			envelope: messaging.Envelope[order]{Payload: order{Text: strings.Repeat("x", client.HardMaxBytes-10)}},
			kind:     messaging.ErrTooLarge, says: "the limit is 8388608",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := newOutbox(t, newClient(t, client.Config{Profiles: profiles{"order-events": c.profile}}), created)
			// Enqueue refuses before it touches the transaction, which is none.
			id, err := o.Enqueue(t.Context(), pgx.Tx(nil), c.envelope, c.options)
			if !errors.Is(err, c.kind) || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), "order-events") || !id.IsZero() {
				t.Errorf("error %q, want %v that says %q", err, c.kind, c.says)
			}
			if err != nil && strings.Contains(err.Error(), "xxx") {
				t.Errorf("the error quotes a value")
			}
		})
	}
}

func TestPrepareCompletes(t *testing.T) {
	t.Parallel()
	traced := func(context.Context) messaging.TraceContext {
		return messaging.TraceContext{Parent: "00-a", State: "b\nc"}
	}
	c := newClient(t, client.Config{Trace: traced, Profiles: profiles{"order-events": {KeyRequired: true, KeyFromAggregate: true, MaxBytes: 4 << 20}}})
	o := newOutbox(t, c, created)
	for _, e := range []messaging.Envelope[order]{{}, {OrderingKey: "own"}, created.New(order{Text: strings.Repeat("x", 2<<20)})} {
		p, err := o.Prepare(t.Context(), e, &client.EnqueueOptions{AggregateID: "7"})
		if err != nil {
			t.Fatal(err)
		}
		if p.ID().IsZero() || !e.ID.IsZero() && p.ID() != e.ID {
			t.Errorf("id %v of an envelope with %v", p.ID(), e.ID)
		}
	}
	if _, err := o.Prepare(t.Context(), messaging.Envelope[order]{}, nil); !errors.Is(err, messaging.ErrValidation) {
		t.Errorf("without aggregate the key is missing: %v", err)
	}
}

func TestNewRefuses(t *testing.T) {
	t.Parallel()
	if _, err := client.New(client.Config{}); !errors.Is(err, messaging.ErrConfiguration) {
		t.Errorf("no producer: %v", err)
	}
	if _, err := client.New(client.Config{Producer: "p", Codecs: []messaging.Codec{}}); !errors.Is(err, messaging.ErrConfiguration) {
		t.Errorf("no codec: %v", err)
	}
	c := newClient(t, client.Config{Profiles: profiles{"other": {ContentType: "application/avro"}}})
	for _, d := range []messaging.Destination[order]{
		{}, {Name: "d", Type: "t", Version: 1}, {Name: "d", Type: "a.b"}, {Name: "other", Type: "a.b", Version: 1},
	} {
		if _, err := client.NewOutbox(c, d); !errors.Is(err, messaging.ErrConfiguration) {
			t.Errorf("%+v: %v", d, err)
		}
	}
	if _, err := client.NewOutbox(c, messaging.Destination[messaging.Tombstone]{Name: "d", Type: "a.b", Version: 1}); !errors.Is(err, messaging.ErrCapabilityUnavailable) {
		t.Errorf("tombstones: %v", err)
	}
	if err := c.EnqueueBatch(t.Context(), nil, client.Prepared{}); !errors.Is(err, messaging.ErrValidation) {
		t.Errorf("a message that was not prepared: %v", err)
	}
	if err := c.EnqueueBatch(t.Context(), nil); err != nil {
		t.Errorf("no message: %v", err)
	}
}
