package brokertest

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/twmb/franz-go/pkg/kgo"
)

// producer is a plain Kafka client that writes to one topic.
func producer(t *testing.T, bootstrap, topic string, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	client, err := kgo.NewClient(append([]kgo.Opt{
		kgo.SeedBrokers(strings.Split(bootstrap, ",")...), kgo.DefaultProduceTopic(topic),
		kgo.RetryBackoffFn(func(int) time.Duration { return 50 * time.Millisecond }),
	}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

func record(i int) *kgo.Record {
	return &kgo.Record{
		Key: []byte(fmt.Sprint("k", i%3)), Value: []byte(fmt.Sprint("body ", i)),
		Headers: []kgo.RecordHeader{{Key: messageID, Value: []byte(fmt.Sprint("id-", i))}},
	}
}

func produce(t *testing.T, client *kgo.Client, from, to int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for i := from; i < to; i++ {
		if err := client.ProduceSync(ctx, record(i)).FirstErr(); err != nil {
			t.Fatalf("record %d: %v", i, err)
		}
	}
}

// rabbit is a plain AMQP publisher in confirm mode.
func rabbit(t *testing.T, url string) (*amqp.Connection, *amqp.Channel) {
	t.Helper()
	conn, err := amqp.Dial(url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.CloseDeadline(time.Now().Add(time.Second)) })
	ch, err := conn.Channel()
	if err != nil {
		t.Fatal(err)
	}
	if err := ch.Confirm(false); err != nil {
		t.Fatal(err)
	}
	return conn, ch
}

func send(t *testing.T, ch *amqp.Channel, exchange, key string, i int) *amqp.DeferredConfirmation {
	t.Helper()
	confirmation, err := ch.PublishWithDeferredConfirmWithContext(t.Context(), exchange, key, false, false, amqp.Publishing{
		Headers: amqp.Table{messageID: fmt.Sprint("id-", i)}, Body: []byte(fmt.Sprint("body ", i)), DeliveryMode: amqp.Persistent,
	})
	if err != nil {
		t.Fatalf("publish %d: %v", i, err)
	}
	return confirmation
}

func confirmed(t *testing.T, c *amqp.DeferredConfirmation) bool {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	ack, err := c.WaitContext(ctx)
	if err != nil {
		t.Fatalf("wait for the confirm: %v", err)
	}
	return ack
}

func TestCaptureKafka(t *testing.T) {
	t.Parallel()
	bootstrap := Require(t, "KAFKA_BOOTSTRAP")
	topic := Topic(t, bootstrap)
	c := CaptureKafka(t, bootstrap, topic)
	client := producer(t, bootstrap, topic)
	produce(t, client, 0, 9)
	produce(t, client, 0, 1) // the same id once more
	c.Wait(t, 10, 10*time.Second)
	c.WaitIDs(t, 9, time.Second)
	c.WaitFor(t, time.Second, "id-0", "id-8")
	if twice := c.Duplicates(); len(twice) != 1 || twice[0] != "id-0" {
		t.Errorf("duplicates %v, want id-0", twice)
	}
	keyed := c.ByKey()
	if len(keyed) != 3 {
		t.Fatalf("%d keys, want 3", len(keyed))
	}
	for i, m := range keyed["k1"] {
		if want := fmt.Sprint("id-", 1+3*i); m.ID != want || string(m.Body) != fmt.Sprint("body ", 1+3*i) || !m.HasKey || m.From != topic {
			t.Errorf("%d: got %s %q from %s, want %s", i, m.ID, m.Body, m.From, want)
		}
	}
	if got := Stored(t, bootstrap, topic); got != 10 {
		t.Errorf("the broker stored %d records, want 10", got)
	}
	c.Quiet(t, 200*time.Millisecond)
}

func TestCaptureRabbit(t *testing.T) {
	t.Parallel()
	vhost := NewVhost(t)
	vhost.Exchange(t, "events", "topic")
	vhost.Queue(t, "orders", nil)
	vhost.Bind(t, "events", "orders", "order.*")
	_, ch := rabbit(t, vhost.URL())
	for i := range 5 {
		if !confirmed(t, send(t, ch, "events", "order.created", i)) {
			t.Fatalf("message %d was not confirmed", i)
		}
	}
	if got := vhost.Ready(t, "orders"); got != 5 {
		t.Errorf("%d messages ready, want 5", got)
	}
	c := CaptureRabbit(t, vhost.URL(), "orders")
	for i, m := range c.Wait(t, 5, 10*time.Second) {
		if m.ID != fmt.Sprint("id-", i) || string(m.Body) != fmt.Sprint("body ", i) || m.Key != "order.created" || m.From != "orders" {
			t.Errorf("%d: got %s %q by %s from %s", i, m.ID, m.Body, m.Key, m.From)
		}
	}
	vhost.CloseConnections(t)
	_, ch = rabbit(t, vhost.URL())
	confirmed(t, send(t, ch, "events", "order.created", 5))
	c.WaitIDs(t, 6, 15*time.Second)
	if c.Len() != 6 {
		t.Errorf("%d deliveries after a reconnect, want 6", c.Len())
	}
}

func TestVhostUser(t *testing.T) {
	t.Parallel()
	vhost := NewVhost(t)
	vhost.Queue(t, "mine", nil)
	vhost.Exchange(t, "open", "fanout")
	vhost.Exchange(t, "closed", "fanout")
	user, password := vhost.User(t, "", "^open$", "")
	_, ch := rabbit(t, vhost.URLFor(user, password))
	if !confirmed(t, send(t, ch, "open", "", 1)) {
		t.Error("the user may not write where it may")
	}
	closed := ch.NotifyClose(make(chan *amqp.Error, 1))
	send(t, ch, "closed", "", 2)
	select {
	case err := <-closed:
		if err.Code != amqp.AccessRefused {
			t.Errorf("the channel ended with %d, want %d", err.Code, amqp.AccessRefused)
		}
	case <-time.After(10 * time.Second):
		t.Error("the user may write where it may not")
	}
}
