package torture

import (
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/backend-skeleton/relay/internal/brokertest"
	"github.com/backend-skeleton/relay/internal/dbtest"
)

// The relays' settings. Leases are short, so that many of them end in a run.
const (
	lease          = 3 * time.Second
	publishTimeout = time.Second
	maxAttempts    = 200 // nothing may be parked for want of attempts
)

// The destinations: Kafka keeps batches in order, the first queue a prefix, the second refuses messages and so gets one
// row of a key at a time.
const (
	kafkaOrders = "kafka.orders"
	rabbitMail  = "rabbit.mail"
	rabbitTasks = "rabbit.tasks"
)

type tree = map[string]any

// world is what a run breaks.
type world struct {
	t        testing.TB
	db       *dbtest.DB
	postgres *brokertest.Server // of the run's own, or nil
	topic    string
	vhost    *brokertest.Vhost
	kafka    *brokertest.Proxy
	rabbit   *brokertest.Proxy
	members  []*member
	captures map[string]*brokertest.Capture
}

func newWorld(t testing.TB, o Options) *world {
	t.Helper()
	w := &world{t: t, captures: map[string]*brokertest.Capture{}}
	bootstrap := brokertest.Require(t, "KAFKA_BOOTSTRAP")
	w.topic = brokertest.Topic(t, bootstrap, brokertest.Partitions(6))
	w.kafka = brokertest.NewKafkaProxy(t, bootstrap)
	w.vhost = brokertest.NewVhost(t)
	w.rabbit = brokertest.NewAMQPProxy(t, w.vhost.Addr())
	w.vhost.Exchange(t, "x", "direct")
	w.vhost.Queue(t, rabbitMail, nil)
	w.vhost.Bind(t, "x", rabbitMail, rabbitMail)
	w.vhost.Queue(t, rabbitTasks, tree{"x-overflow": "reject-publish", "x-max-length": 1_000_000})
	w.bind()
	dbOptions := []dbtest.Option{dbtest.MaxConns(writerCount + 6)}
	if o.OwnPostgres {
		w.postgres = brokertest.StartPostgres(t, brokertest.PostgresOptions{})
		dbOptions = append(dbOptions, dbtest.Server(w.postgres.Env("PG_URL_17")))
	}
	w.db = dbtest.New(t, dbOptions...)
	if _, err := w.db.Exec(t.Context(), audit); err != nil {
		t.Fatalf("install the audit: %v", err)
	}
	w.captures[kafkaOrders] = brokertest.CaptureKafka(t, bootstrap, w.topic)
	w.captures[rabbitMail] = brokertest.CaptureRabbit(t, w.vhost.URL(), rabbitMail)
	w.captures[rabbitTasks] = brokertest.CaptureRabbit(t, w.vhost.URL(), rabbitTasks)
	w.fleet(o)
	return w
}

// bind and unbind the queue of the destination whose messages are refused.
func (w *world) bind() { w.vhost.Bind(w.t, "x", rabbitTasks, rabbitTasks) }

func (w *world) unbind() {
	w.vhost.Call(w.t, http.MethodDelete, fmt.Sprintf("bindings/%s/e/x/q/%s/%s", w.vhost.Name, rabbitTasks, rabbitTasks), nil)
}

func (w *world) fleet(o Options) {
	dir := o.Logs
	if dir == "" {
		dir = w.t.TempDir()
	}
	u, err := url.Parse(w.vhost.URL())
	if err != nil {
		w.t.Fatal("the virtual host's address is not a URL")
	}
	password, _ := u.User.Password()
	config := filepath.Join(dir, "relay.yaml")
	data, err := yaml.Marshal(w.file(u.User.Username()))
	if err != nil {
		w.t.Fatal(err)
	}
	if err := os.WriteFile(config, data, 0o600); err != nil {
		w.t.Fatal(err)
	}
	for i := range o.Relays {
		m := &member{t: w.t, number: i, program: o.Program, config: config, dir: dir, env: []string{"TEST_RABBIT_PASSWORD=" + password}}
		m.link = brokertest.NewProxy(w.t, w.db.Addr())
		m.dsn = w.db.URLVia(m.link.Addr())
		w.members = append(w.members, m)
	}
}

// file is the configuration of every relay.
func (w *world) file(rabbitUser string) tree {
	queue := func(name string) tree {
		return tree{
			"broker": "rabbit", "kind": "WORK_QUEUE", "guarantees": tree{"ordering": "KEY"}, "outbox": tree{"keyless": "allow"},
			"physical": tree{"exchange": "x", "routing-key": name, "queue": name},
			"producer": tree{"confirmation": "BROKER_ACK", "timeout": publishTimeout.String()},
		}
	}
	return tree{
		"messaging": tree{
			"environment": "test",
			"brokers": tree{
				"kafka":  tree{"kind": "kafka", "seeds": []string{w.kafka.Addr()}},
				"rabbit": tree{"kind": "rabbitmq", "seeds": []string{w.rabbit.Addr()}, "vhost": w.vhost.Name, "producer-identity": "rabbit"},
			},
			"destinations": tree{
				kafkaOrders: tree{
					"broker": "kafka", "kind": "EVENT_STREAM", "guarantees": tree{"ordering": "KEY"}, "outbox": tree{"keyless": "allow"},
					"physical": tree{"topic": w.topic}, "producer": tree{"confirmation": "BROKER_ACK", "timeout": publishTimeout.String()},
				},
				rabbitMail:  queue(rabbitMail),
				rabbitTasks: queue(rabbitTasks),
			},
		},
		"security": tree{"credentials": tree{"rabbit": tree{"mechanism": "PLAIN", "username": rabbitUser, "password": "env:TEST_RABBIT_PASSWORD"}}}, //nolint:gosec // the name of a variable
		"relay": tree{
			"lease": lease.String(), "poll": "100ms", "batch": 50, "attempts": maxAttempts, "drain": "5s",
			"backoff": tree{"initial": "200ms", "max": "2s"},
		},
		"http": tree{"listen": "127.0.0.1:0"},
	}
}
