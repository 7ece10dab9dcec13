package torture

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"go.yaml.in/yaml/v3"

	"github.com/backend-skeleton/relay/internal/brokertest"
	"github.com/backend-skeleton/relay/internal/dbtest"
)

// The relays' settings. Leases are short, so that many of them end in a run.
const (
	lease          = 3 * time.Second
	publishTimeout = time.Second
	maxAttempts    = 200 // nothing is parked for want of attempts
	fewAttempts    = 6   // but where the operator redrives it
)

// The destinations: Kafka keeps batches in order, the first queue a prefix, the second refuses messages and so gets one
// row of a key at a time. A parked row lets the first queue's keys go on and blocks the others'.
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
	own      servers
	versions []string
	topic    string
	vhost    *brokertest.Vhost
	kafka    *brokertest.Proxy
	rabbit   *brokertest.Proxy
	members  []*member
	captures map[string]*brokertest.Capture
}

// servers of the run's own; nil without.
type servers struct{ postgres, kafka, rabbit *brokertest.Server }

func newWorld(t testing.TB, o Options) *world {
	t.Helper()
	w := &world{t: t, captures: map[string]*brokertest.Capture{}}
	var bootstrap string
	dbOptions := []dbtest.Option{dbtest.MaxConns(writerCount + 6)}
	if o.OwnServers {
		bootstrap, dbOptions = w.startServers(o, dbOptions)
	} else {
		bootstrap = brokertest.Require(t, "KAFKA_BOOTSTRAP")
		w.vhost = brokertest.NewVhost(t)
	}
	w.topic = brokertest.Topic(t, bootstrap, brokertest.Partitions(6))
	w.kafka = brokertest.NewKafkaProxy(t, bootstrap)
	w.rabbit = brokertest.NewAMQPProxy(t, w.vhost.Addr())
	w.vhost.Exchange(t, "x", "direct")
	w.vhost.Queue(t, rabbitMail, nil)
	w.vhost.Bind(t, "x", rabbitMail, rabbitMail)
	w.vhost.Queue(t, rabbitTasks, tree{"x-overflow": "reject-publish", "x-max-length": 1_000_000})
	w.bind()
	w.db = dbtest.New(t, dbOptions...)
	if _, err := w.db.Exec(t.Context(), audit); err != nil {
		t.Fatalf("install the audit: %v", err)
	}
	w.captures[kafkaOrders] = brokertest.CaptureKafka(t, bootstrap, w.topic)
	w.captures[rabbitMail] = brokertest.CaptureRabbit(t, w.vhost.URL(), rabbitMail)
	w.captures[rabbitTasks] = brokertest.CaptureRabbit(t, w.vhost.URL(), rabbitTasks)
	w.readVersions()
	w.fleet(o)
	return w
}

// startServers starts a PostgreSQL, of a version by the seed, a Kafka and a RabbitMQ that the nemesis may kill.
func (w *world) startServers(o Options, options []dbtest.Option) (bootstrap string, _ []dbtest.Option) {
	w.t.Helper()
	major := 16 + int(o.Seed%3)
	w.own.postgres = brokertest.StartPostgres(w.t, brokertest.PostgresOptions{Major: major})
	w.own.kafka = brokertest.StartKafka(w.t, brokertest.KafkaOptions{})
	w.own.rabbit = brokertest.StartRabbitMQ(w.t, brokertest.RabbitOptions{})
	w.vhost = brokertest.NewVhostOn(w.t, w.own.rabbit.Env("RABBITMQ_URL_1"), w.own.rabbit.Env("RABBITMQ_API_1"))
	return w.own.kafka.Env("KAFKA_BOOTSTRAP"), append(options, dbtest.Server(w.own.postgres.Env(fmt.Sprintf("PG_URL_%d", major))))
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
	data, err := yaml.Marshal(w.file(u.User.Username(), o))
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

// management is how relays learn that the first queue keeps a prefix.
func (w *world) management() tree {
	u, err := url.Parse(w.vhost.API())
	if err != nil {
		w.t.Fatal("the management API's address is not a URL")
	}
	u.User = nil
	return tree{"url": u.String(), "identity": "rabbit"}
}

// file is the configuration of every relay.
func (w *world) file(rabbitUser string, o Options) tree {
	breaker := tree{"open-max": "3s"}
	if o.Patient {
		breaker = tree{"failures": 1000, "open-for": "100ms", "open-max": "500ms"}
	}
	payload := tree{"max-bytes": fmt.Sprintf("%dB", mostBytes)}
	queue := func(name string, box tree) tree {
		return tree{
			"broker": "rabbit", "kind": "WORK_QUEUE", "guarantees": tree{"ordering": "KEY"}, "outbox": box, "payload": payload,
			"physical": tree{"exchange": "x", "routing-key": name, "queue": name},
			"producer": tree{"confirmation": "BROKER_ACK", "timeout": publishTimeout.String()},
		}
	}
	return tree{
		"messaging": tree{
			"environment": "test",
			"brokers": tree{
				"kafka":  tree{"kind": "kafka", "seeds": []string{w.kafka.Addr()}},
				"rabbit": tree{"kind": "rabbitmq", "seeds": []string{w.rabbit.Addr()}, "vhost": w.vhost.Name, "producer-identity": "rabbit", "management": w.management()},
			},
			"destinations": tree{
				kafkaOrders: tree{
					"broker": "kafka", "kind": "EVENT_STREAM", "guarantees": tree{"ordering": "KEY"}, "outbox": tree{"keyless": "allow"}, "payload": payload,
					"physical": tree{"topic": w.topic}, "producer": tree{"confirmation": "BROKER_ACK", "timeout": publishTimeout.String()},
				},
				rabbitMail:  queue(rabbitMail, tree{"keyless": "allow", "head-policy": "SKIP"}),
				rabbitTasks: queue(rabbitTasks, tree{"keyless": "allow", "attempts": fewAttempts}),
			},
		},
		"security": tree{"credentials": tree{"rabbit": tree{"mechanism": "PLAIN", "username": rabbitUser, "password": "env:TEST_RABBIT_PASSWORD"}}}, //nolint:gosec // the name of a variable
		"relay": tree{
			"lease": lease.String(), "poll": "100ms", "batch": 50, "attempts": maxAttempts, "drain": "5s",
			"backoff": tree{"initial": o.Backoff.String(), "max": "2s"}, "breaker": breaker,
		},
		"http": tree{"listen": "127.0.0.1:0"},
	}
}

// operatorPool has a name of its own at the database.
func (w *world) operatorPool() *pgxpool.Pool {
	w.t.Helper()
	config, err := pgxpool.ParseConfig(w.db.URL())
	if err != nil {
		w.t.Fatal("the database's address does not parse")
	}
	config.MaxConns = 2
	config.ConnConfig.RuntimeParams["application_name"] = Operator
	pool, err := pgxpool.NewWithConfig(context.WithoutCancel(w.t.Context()), config)
	if err != nil {
		w.t.Fatalf("open the operator's pool: %v", err)
	}
	w.t.Cleanup(pool.Close)
	return pool
}

// readVersions notes what the run is about.
func (w *world) readVersions() {
	note := func(name, version string) { w.versions = append(w.versions, name+" "+strings.TrimSpace(version)) }
	var version string
	if err := w.db.QueryRow(w.t.Context(), `show server_version`).Scan(&version); err != nil {
		w.t.Fatalf("ask PostgreSQL for its version: %v", err)
	}
	note("PostgreSQL", version)
	if w.own.kafka != nil {
		version, _, _ = strings.Cut(w.own.kafka.Ctl(1, "topics", "--version"), " ")
		note("Kafka", version)
	}
	var overview struct {
		RabbitMQ string `json:"rabbitmq_version"`
		Erlang   string `json:"erlang_version"`
	}
	if err := json.Unmarshal(w.vhost.Call(w.t, http.MethodGet, "overview", nil), &overview); err != nil {
		w.t.Fatalf("ask RabbitMQ for its version: %v", err)
	}
	note("RabbitMQ", overview.RabbitMQ)
	note("Erlang", overview.Erlang)
	note("Go", strings.TrimPrefix(runtime.Version(), "go"))
}
