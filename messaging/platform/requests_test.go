package platform_test

import (
	"context"
	"testing"
	"time"

	"github.com/backend-skeleton/relay/messaging"
	"github.com/backend-skeleton/relay/messaging/platform"
	"github.com/backend-skeleton/relay/messaging/transport"
)

// asking is a desk with reply queues: it answers every request, twice.
type asking struct {
	*desk
	replies chan transport.Delivery
}

func (a asking) ReplyQueue(ctx context.Context) (string, <-chan transport.Delivery, error) {
	go func() {
		defer close(a.replies)
		<-ctx.Done()
	}()
	return "replies-1", a.replies, nil
}

func (a asking) Publisher(ctx context.Context, es []transport.Endpoint) (transport.Publisher, error) {
	p, err := a.desk.Publisher(ctx, es)
	return answering{p, a}, err
}

type answering struct {
	transport.Publisher
	a asking
}

func (p answering) Publish(ctx context.Context, to transport.Endpoint, ms []transport.Message, done func(int, messaging.PublishResult)) {
	p.Publisher.Publish(ctx, to, ms, done)
	for _, m := range ms {
		f := transport.WireFields{
			ID: messaging.NewMessageID(), Type: "price.quoted", SchemaVersion: 1, Producer: "prices", ProducedAt: time.Now(),
			ContentType: "application/json", Causation: messaging.CausationID{MessageID: m.ID},
		}
		for range 2 {
			p.a.replies <- transport.Delivery{Message: transport.Message{ID: f.ID, Value: []byte(`{"id":"` + m.ReplyTo + `"}`), Header: transport.EncodeHeaders(&f)}}
		}
	}
}

func TestRequestAndReply(t *testing.T) {
	t.Parallel()
	d, replies := newDesk(), make(chan transport.Delivery, 16) // one queue for both adapters of the broker
	p := open(t, d, edit(t, local, "BATCH_PUBLISH", "REQUEST_REPLY"), func(o *platform.Options) {
		o.Adapters = map[string]platform.NewAdapter{"memory": func(_ context.Context, settings map[string]any) (transport.Adapter, error) {
			d.settings = append(d.settings, settings)
			return asking{d, replies}, nil
		}}
	})
	quoted := messaging.Destination[order]{Name: "quotes", Type: "price.quoted", Version: 1}
	requester, err := platform.NewRequester(p, created, quoted)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	reply, err := requester.Request(ctx, created.New(order{ID: "1"}))
	if err != nil || reply.Payload.ID != "replies-1" {
		t.Errorf("%+v, %v", reply, err)
	}
	if len(d.settings) != 2 || d.settings[0]["role"] != "producer" || d.settings[1]["role"] != "consumer" {
		t.Errorf("identities %v", d.settings)
	}
}
