package publish_test

import (
	"context"
	"testing"

	"github.com/backend-skeleton/relay/internal/publish"
	"github.com/backend-skeleton/relay/messaging"
	"github.com/backend-skeleton/relay/messaging/transport"
)

// still is an adapter's publisher that allocates nothing.
type still struct{ r messaging.PublishResult }

func (s still) Publish(_ context.Context, _ transport.Endpoint, ms []transport.Message, done func(int, messaging.PublishResult)) {
	for i := range ms {
		done(i, s.r)
	}
}

func (still) Close(context.Context) error { return nil }

// fixed is a codec that allocates nothing, so that what is left is the way itself.
type fixed struct{ data []byte }

func (fixed) ContentType() string { return "application/json" }

func (f fixed) Encode(context.Context, messaging.MessageType, messaging.SchemaVersion, any) ([]byte, *messaging.SchemaReference, error) {
	return f.data, nil, nil
}

func (fixed) Decode(context.Context, messaging.MessageType, messaging.SchemaVersion, *messaging.SchemaReference, []byte, any) error {
	return nil
}

func quiet(tb testing.TB) (messaging.Publisher[*order], messaging.Envelope[*order]) {
	tb.Helper()
	d := &publish.Destination{
		Name: created.Name, Broker: publish.NewBroker("kafka", still{confirmed()}, 0, publish.Hooks{}),
		Rules: publish.Rules{Producer: "orders", Codecs: []messaging.Codec{fixed{[]byte(`{"id":"1"}`)}}},
	}
	to := messaging.Destination[*order]{Name: created.Name, Type: created.Type, Version: 1}
	p, err := publish.New(d, to)
	if err != nil {
		tb.Fatal(err)
	}
	e := to.New(&order{ID: "1"})
	e.OrderingKey = "order-1"
	e.Trace.Parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	return p, e
}

func TestPublishAllocatesLittleAboveTheCodec(t *testing.T) {
	p, e := quiet(t)
	ctx := t.Context()
	got := testing.AllocsPerRun(500, func() {
		if _, err := p.Publish(ctx, e, nil); err != nil {
			t.Fatal(err)
		}
	})
	if got > 6 {
		t.Errorf("%v allocations a message, the limit is 6", got)
	}
}

func BenchmarkPublish(b *testing.B) {
	p, e := quiet(b)
	ctx := b.Context()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := p.Publish(ctx, e, nil); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkPublishParallel(b *testing.B) {
	p, e := quiet(b)
	ctx := b.Context()
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if _, err := p.Publish(ctx, e, nil); err != nil {
				b.Error(err)
			}
		}
	})
}

// What validation alone costs at an insert.
func BenchmarkValidate(b *testing.B) {
	_, e := quiet(b)
	e.Producer = "orders"
	profile := messaging.Profile{
		KeyRequired: true, Tenants: messaging.NewTenants("acme"),
		Types: map[messaging.MessageType]messaging.TypeRule{created.Type: {Kind: messaging.KindCommand, Versions: []messaging.SchemaVersion{1}}},
	}
	b.ReportAllocs()
	for b.Loop() {
		if err := e.Validate(profile); err != nil {
			b.Fatal(err)
		}
	}
}
