package bench

import (
	"context"
	"fmt"
	"log/slog"
	"net/url"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/backend-skeleton/relay/internal/adapters/kafka"
	"github.com/backend-skeleton/relay/internal/adapters/rabbitmq"
	"github.com/backend-skeleton/relay/messaging"
	"github.com/backend-skeleton/relay/messaging/transport"
)

// partitions of the topic that is published to.
const partitions = 4

// kafkaCluster is the cluster that was given, or one in this process, with a topic of this run's own.
type kafkaCluster struct {
	seeds []string
	fake  *kfake.Cluster
	topic string
	admin *kgo.Client
}

func newKafka(ctx context.Context, seeds []string) (*kafkaCluster, error) {
	k := &kafkaCluster{seeds: seeds, topic: "relay.bench-" + random()}
	if len(seeds) == 0 {
		fake, err := kfake.NewCluster(kfake.NumBrokers(1))
		if err != nil {
			return nil, fmt.Errorf("start an in-memory Kafka: %w", err)
		}
		k.fake, k.seeds = fake, fake.ListenAddrs()
	}
	var err error
	if k.admin, err = kgo.NewClient(kgo.SeedBrokers(k.seeds...), kgo.ProducerLinger(0), kgo.RecordPartitioner(kgo.StickyPartitioner()),
		kgo.DefaultProduceTopic(k.topic), kgo.ProducerBatchCompression(kgo.NoCompression())); err != nil {
		return nil, err
	}
	limited, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	if _, err := kadm.NewClient(k.admin).CreateTopic(limited, partitions, -1, nil, k.topic); err != nil {
		_ = k.close()
		return nil, fmt.Errorf("create a topic: %w", err)
	}
	return k, nil
}

func (k *kafkaCluster) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	_, err := kadm.NewClient(k.admin).DeleteTopic(ctx, k.topic)
	k.admin.Close()
	if k.fake != nil {
		k.fake.Close()
		return nil
	}
	if err != nil {
		return fmt.Errorf("topic %s is left behind: %w", k.topic, err)
	}
	return nil
}

func (k *kafkaCluster) adapter(inFlight int) (transport.Adapter, error) {
	return kafka.New(kafka.Config{Name: "broker", Seeds: k.seeds, ProducerInFlight: inFlight, Logger: slog.New(slog.DiscardHandler)})
}

func (k *kafkaCluster) endpoint() transport.Endpoint {
	return transport.Endpoint{Physical: map[string]string{"topic": k.topic}}
}

// rabbitQueue is a quorum queue of this run's own behind an exchange.
type rabbitQueue struct {
	conn *amqp.Connection
	url  *url.URL
	api  string
	name string
}

func newRabbit(address, api string) (*rabbitQueue, error) {
	u, err := url.Parse(address)
	if err != nil {
		return nil, fmt.Errorf("the RabbitMQ address is not a URL")
	}
	conn, err := amqp.Dial(address)
	if err != nil {
		return nil, fmt.Errorf("connect to RabbitMQ: %w", err)
	}
	q := &rabbitQueue{conn: conn, url: u, api: api, name: "relay.bench-" + random()}
	ch, err := conn.Channel()
	if err != nil {
		return nil, err
	}
	if err := ch.ExchangeDeclare(q.name, amqp.ExchangeDirect, true, false, false, false, nil); err != nil {
		return nil, err
	}
	if _, err := ch.QueueDeclare(q.name, true, false, false, false, amqp.Table{amqp.QueueTypeArg: amqp.QueueTypeQuorum}); err != nil {
		return nil, err
	}
	return q, ch.QueueBind(q.name, "bench", q.name, false, nil)
}

func (q *rabbitQueue) adapter(inFlight int) (transport.Adapter, error) {
	password := func(u *url.URL) func(context.Context) (string, error) {
		return func(context.Context) (string, error) { p, _ := u.User.Password(); return p, nil }
	}
	c := rabbitmq.Config{
		Name: "broker", Seeds: []string{q.url.Host}, ProducerInFlight: inFlight, Logger: slog.New(slog.DiscardHandler),
		Credentials: rabbitmq.Credentials{Username: q.url.User.Username(), Password: password(q.url)},
	}
	if vhost, err := url.PathUnescape(q.url.EscapedPath()); err == nil && len(vhost) > 1 {
		c.VHost = vhost[1:]
	}
	if q.api != "" {
		u, err := url.Parse(q.api)
		if err != nil {
			return nil, fmt.Errorf("the address of RabbitMQ's management API is not a URL")
		}
		c.Management = rabbitmq.Management{Username: u.User.Username(), Password: password(u)}
		bare := *u
		bare.User = nil
		c.Management.URL = bare.String()
	}
	return rabbitmq.New(c)
}

func (q *rabbitQueue) endpoint() transport.Endpoint {
	return transport.Endpoint{
		Physical: map[string]string{"exchange": q.name, "routing-key": "bench", "queue": q.name},
		Producer: map[string]any{"mandatory-routing": true, "confirmation": messaging.LevelBrokerAck},
	}
}

func (q *rabbitQueue) close() error {
	defer func() { _ = q.conn.Close() }()
	ch, err := q.conn.Channel()
	if err == nil {
		if _, err = ch.QueueDelete(q.name, false, false, false); err == nil {
			err = ch.ExchangeDelete(q.name, false, false)
		}
	}
	if err != nil {
		return fmt.Errorf("queue and exchange %s are left behind: %w", q.name, err)
	}
	return nil
}
