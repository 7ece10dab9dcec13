package publish_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/backend-skeleton/relay/internal/publish"
	"github.com/backend-skeleton/relay/messaging"
	"github.com/backend-skeleton/relay/messaging/transport"
)

type quote struct {
	Cents int `json:"cents"`
}

var quoted = messaging.Destination[quote]{Name: "quotes", Type: "price.quoted", Version: 1}

// mailbox is an adapter's reply queue.
type mailbox chan transport.Delivery

func (m mailbox) ReplyQueue(context.Context) (string, <-chan transport.Delivery, error) {
	return "replies-1", m, nil
}

func answerTo(request messaging.MessageID, payload string) transport.Delivery {
	f := transport.WireFields{
		ID: messaging.NewMessageID(), Type: quoted.Type, SchemaVersion: 1, Producer: "prices", ProducedAt: time.Now(), ContentType: "application/json",
		Causation: messaging.CausationID{MessageID: request},
	}
	return transport.Delivery{Message: transport.Message{ID: f.ID, Value: []byte(payload), Header: transport.EncodeHeaders(&f)}}
}

func TestARequestEndsOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		box := make(mailbox)
		var late, duplicate int
		replies, err := publish.NewReplies(t.Context(), box, func(isLate bool) {
			if isLate {
				late++
			} else {
				duplicate++
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		ended := make(chan struct{})
		go func() { replies.Run(); close(ended) }()
		b := newBench(t, &edge{}, 0)
		b.Granted = all
		q, err := publish.NewRequester(b.Destination, created, quoted, replies)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := q.Request(context.Background(), event("")); !errors.Is(err, messaging.ErrValidation) {
			t.Errorf("without a deadline: %v", err)
		}

		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		e := event("")
		go func() {
			box <- answerTo(e.ID, `{"cents":7}`)
			box <- answerTo(e.ID, `{"cents":8}`) // a duplicate
		}()
		synctest.Wait() // the reply may not come before the request; it does here, and is late
		if late != 2 {
			t.Errorf("%d replies came before the request", late)
		}
		go func() {
			<-time.After(time.Millisecond) // virtual time
			box <- answerTo(e.ID, `{"cents":7}`)
			box <- answerTo(e.ID, `{"cents":8}`)
		}()
		d, err := q.Request(ctx, e)
		if err != nil || d.Payload.Cents != 7 || d.Causation.MessageID != e.ID || d.Meta.Attempt != 1 || d.Hash == "" {
			t.Errorf("%+v, %v", d, err)
		}
		if sent := b.edge.sent(); sent[0].ReplyTo != "replies-1" {
			t.Errorf("reply to %q", sent[0].ReplyTo)
		}
		synctest.Wait()
		if duplicate != 1 {
			t.Errorf("%d duplicates", duplicate)
		}

		slow, stop := context.WithTimeout(t.Context(), time.Second)
		defer stop()
		other := event("")
		if _, err := q.Request(slow, other); !errors.Is(err, messaging.ErrReplyTimeout) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("no reply: %v", err)
		}
		box <- answerTo(other.ID, `{"cents":9}`)
		synctest.Wait()
		if late != 3 {
			t.Errorf("%d late replies", late)
		}

		broken, done := context.WithTimeout(t.Context(), time.Second)
		defer done()
		bad := event("")
		go func() {
			<-time.After(time.Millisecond) // virtual time
			box <- answerTo(bad.ID, `{"cents":"many"}`)
		}()
		if _, err := q.Request(broken, bad); !errors.Is(err, messaging.ErrSerialization) {
			t.Errorf("a reply that cannot be decoded: %v", err)
		}

		close(box)
		<-ended
		last, over := context.WithTimeout(t.Context(), time.Second)
		defer over()
		if _, err := q.Request(last, event("")); !errors.Is(err, messaging.ErrClosed) {
			t.Errorf("after the end: %v", err)
		}
	})
}

func TestARejectedRequestDoesNotWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		replies, err := publish.NewReplies(t.Context(), make(mailbox), nil)
		if err != nil {
			t.Fatal(err)
		}
		b := newBench(t, &edge{answer: func(transport.Message) *messaging.PublishResult {
			return refused(messaging.Rejected, messaging.CategoryConfiguration, messaging.CodeUnknownTopic)
		}}, 0)
		b.Granted = all
		q, err := publish.NewRequester(b.Destination, created, quoted, replies)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		start := time.Now()
		if _, err := q.Request(ctx, event("")); !errors.Is(err, messaging.ErrPublishRejected) || time.Since(start) != 0 {
			t.Errorf("%v after %v", err, time.Since(start))
		}
	})
}
