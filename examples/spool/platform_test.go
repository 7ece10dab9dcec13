package spool_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/backend-skeleton/relay/examples/spool"
	"github.com/backend-skeleton/relay/messaging"
	"github.com/backend-skeleton/relay/messaging/platform"
	"github.com/backend-skeleton/relay/messaging/transport"
)

type mail struct {
	To string `json:"to"`
}

// A service of the kind spool: the platform needs the adapter's maker and nothing else.
func TestPlatformRunsOnASpool(t *testing.T) {
	t.Parallel()
	broker, err := spool.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"mails", "mail-dlq", "mail-parking"} {
		if err := broker.Create(name); err != nil {
			t.Fatal(err)
		}
	}
	p, err := platform.Open(t.Context(), platform.Options{
		File: "relay.yaml", Env: []string{}, Producer: "shop",
		Adapters: map[string]platform.NewAdapter{"spool": func(context.Context, map[string]any) (transport.Adapter, error) {
			return spool.NewAdapter(broker, false), nil
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
	mails := messaging.Destination[mail]{Name: "mails", Type: "mail.wanted", Version: 1}
	sent := make(chan string, 10)
	var bounced sync.Once
	_, err = platform.Consume(p, "mailer", platform.On(mails, messaging.FromError(func(_ context.Context, d messaging.Delivery[mail]) error {
		var err error
		if d.Payload.To == "bob" {
			bounced.Do(func() { err = errors.New("the mail server is away") })
		}
		if err == nil {
			sent <- d.Payload.To
		}
		return err
	})))
	if err != nil {
		t.Fatal(err)
	}
	publisher, err := platform.NewPublisher(p, mails)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- p.Run(ctx) }()
	for _, to := range []string{"ann", "bob"} {
		if r, err := publisher.Publish(t.Context(), mails.New(mail{To: to}), nil); err != nil || r.Completion != messaging.Confirmed {
			t.Fatalf("%+v, %v", r, err)
		}
	}
	got := map[string]int{}
	for range 2 {
		select {
		case to := <-sent:
			got[to]++
		case <-time.After(20 * time.Second):
			t.Fatal("a mail is not sent")
		}
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if got["ann"] != 1 || got["bob"] != 1 {
		t.Errorf("sent %v", got)
	}
	if left, err := broker.Stored("mails"); err != nil || len(left) != 0 {
		t.Errorf("%d mails are left, %v", len(left), err)
	}
}
