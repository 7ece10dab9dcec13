package acceptance

import (
	"context"
	"io"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/backend-skeleton/relay/internal/brokertest"
	"github.com/backend-skeleton/relay/messaging"
	"github.com/backend-skeleton/relay/messaging/platform"
)

// TestThePlatformPublishesToBothBrokers: a service of one file publishes directly, and consumers of other languages see what
// the relay would have written. Tier: make test; it needs Kafka and RabbitMQ.
func TestThePlatformPublishesToBothBrokers(t *testing.T) {
	t.Parallel()
	bootstrap := brokertest.Require(t, "KAFKA_BOOTSTRAP")
	topic, vhost := brokertest.Topic(t, bootstrap), brokertest.NewVhost(t)
	vhost.Exchange(t, "work", "direct")
	vhost.Queue(t, "mail", map[string]any{"x-queue-type": "quorum"})
	vhost.Bind(t, "work", "mail", "email")
	u, err := url.Parse(vhost.URL())
	if err != nil {
		t.Fatal("the virtual host has no address")
	}
	password, _ := u.User.Password()
	api, err := url.Parse(vhost.API())
	if err != nil {
		t.Fatal("the management API has no address")
	}
	text := strings.NewReplacer("<KAFKA>", strings.Split(bootstrap, ",")[0], "<TOPIC>", topic, "<RABBIT>", vhost.Addr(), "<VHOST>", vhost.Name,
		"<USER>", u.User.Username(), "<API>", api.Scheme+"://"+api.Host).Replace(`
messaging:
  environment: local
  brokers:
    kafka: {kind: kafka, seeds: ["<KAFKA>"]}
    rabbit: {kind: rabbitmq, seeds: ["<RABBIT>"], vhost: <VHOST>, producer-identity: rabbit, management: {url: "<API>", identity: rabbit}}
  destinations:
    order-events: {broker: kafka, kind: EVENT_STREAM, physical: {topic: <TOPIC>}, guarantees: {ordering: KEY}, producer: {confirmation: BROKER_ACK}, grants: [BATCH_PUBLISH]}
    email-work: {broker: rabbit, kind: WORK_QUEUE, physical: {exchange: work, routing-key: email, queue: mail}}
security: {credentials: {rabbit: {mechanism: PLAIN, username: <USER>, password: "env:RABBIT_PASSWORD"}}}
`)
	file := filepath.Join(t.TempDir(), "relay.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	p, err := platform.Open(t.Context(), platform.Options{
		File: file, Env: []string{"RABBIT_PASSWORD=" + password}, Producer: "orders", Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- p.Run(ctx) }()

	type order struct {
		ID string `json:"id"`
	}
	events := messaging.Destination[order]{Name: "order-events", Type: "order.created", Version: 1}
	mails := messaging.Destination[order]{Name: "email-work", Type: "email.requested", Version: 1}
	batch, err := platform.NewBatchPublisher(p, events)
	if err != nil {
		t.Fatal(err)
	}
	one, err := platform.NewPublisher(p, mails)
	if err != nil {
		t.Fatal(err)
	}
	patient := &messaging.PublishOptions{Timeout: time.Minute}
	var sent []messaging.Envelope[order]
	for range 50 {
		e := events.New(order{ID: "1"})
		e.OrderingKey = "order-1"
		sent = append(sent, e)
	}
	if _, err := batch.PublishBatch(ctx, sent, patient); err != nil {
		t.Fatal(err)
	}
	mail := mails.New(order{ID: "2"})
	if r, err := one.Publish(ctx, mail, patient); err != nil || r.Evidence.Level != messaging.LevelReplicationOrPersistenceAck {
		t.Fatalf("%+v, %v", r, err)
	}
	stored := brokertest.CaptureKafka(t, bootstrap, topic).WaitIDs(t, len(sent), time.Minute)
	for i, m := range stored {
		if m.Header("msg.id") != sent[i].ID.String() || m.Header("msg.producer") != "orders" {
			t.Fatalf("record %d is not the message %d", i, i)
		}
	}
	if got := brokertest.CaptureRabbit(t, vhost.URL(), "mail").WaitIDs(t, 1, time.Minute); got[0].Header("msg.id") != mail.ID.String() {
		t.Error("the queue holds another message")
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
