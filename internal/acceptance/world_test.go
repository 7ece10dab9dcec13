package acceptance

import (
	"context"
	"fmt"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"go.yaml.in/yaml/v3"

	"github.com/backend-skeleton/relay/internal/brokertest"
	"github.com/backend-skeleton/relay/internal/dbtest"
	"github.com/backend-skeleton/relay/internal/testenv"
)

// The settings of the failure cases; a case says where it needs others.
const (
	lease          = 2 * time.Second
	poll           = 100 * time.Millisecond
	maxAttempts    = 3
	publishTimeout = time.Second
	drain          = 5 * time.Second
)

// kafkaDestination and rabbitDestination exist in every world that asks for their brokers.
const (
	kafkaDestination  = "kafka.orders"
	rabbitDestination = "rabbit.mail"
)

type m = map[string]any

// world is one test's part of the servers, and the relay file for it.
type world struct {
	t    *testing.T
	db   *dbtest.DB
	file m
	env  []string

	dbOptions []dbtest.Option

	// relays and writers come to the database with their own roles; what a test looks at or changes by hand it does as the
	// owner
	relayURL string
	writers  *pgxpool.Pool

	kafka string // bootstrap address that the relay uses
	topic string
	vhost *brokertest.Vhost
	queue string

	kafkaProxy, rabbitProxy *brokertest.Proxy
}

type option func(*world)

// newWorld has a database; the options add brokers.
func newWorld(t *testing.T, opts ...option) *world {
	t.Helper()
	w := &world{t: t}
	w.file = m{
		"messaging": m{"environment": "test", "brokers": m{}, "destinations": m{}},
		"relay": m{
			"lease": lease.String(), "poll": poll.String(), "batch": 50, "attempts": maxAttempts, "drain": drain.String(),
			"backoff": m{"initial": "1s", "max": "10s"},
		},
		"http": m{"listen": "127.0.0.1:0"},
	}
	for _, o := range opts {
		o(w)
	}
	w.db = dbtest.New(t, w.dbOptions...)
	w.useRoles()
	w.env = append([]string{"RELAY_DATABASE_URL=" + w.relayURL}, w.env...)
	return w
}

// withDatabase makes the database otherwise than usual.
func withDatabase(opts ...dbtest.Option) option {
	return func(w *world) { w.dbOptions = append(w.dbOptions, opts...) }
}

// withKafka adds the shared Kafka, directly or through a proxy, and a topic.
func withKafka(proxied bool, topic ...brokertest.TopicOption) option {
	return func(w *world) {
		bootstrap := brokertest.Require(w.t, "KAFKA_BOOTSTRAP")
		w.topic = brokertest.Topic(w.t, bootstrap, topic...)
		w.kafka = bootstrap
		if proxied {
			w.kafkaProxy = brokertest.NewKafkaProxy(w.t, bootstrap)
			w.kafka = w.kafkaProxy.Addr()
		}
		w.useKafka(w.kafka)
	}
}

func (w *world) useKafka(bootstrap string) {
	w.broker("kafka", m{"kind": "kafka", "seeds": []string{bootstrap}})
	w.destination(kafkaDestination, m{
		"broker": "kafka", "kind": "EVENT_STREAM", "physical": m{"topic": w.topic}, "guarantees": m{"ordering": "KEY"},
		"producer": m{"confirmation": "BROKER_ACK", "timeout": publishTimeout.String()}, "outbox": m{"keyless": "allow"},
	})
}

// withRabbit adds a virtual host on the shared RabbitMQ, directly or through a proxy, with an exchange and a bound
// quorum queue.
func withRabbit(proxied bool) option {
	return func(w *world) {
		w.vhost = brokertest.NewVhost(w.t)
		addr := w.vhost.Addr()
		if proxied {
			w.rabbitProxy = brokertest.NewAMQPProxy(w.t, addr)
			addr = w.rabbitProxy.Addr()
		}
		w.useRabbit(addr)
	}
}

func (w *world) useRabbit(addr string) {
	w.queue = "mail.q"
	w.vhost.Exchange(w.t, "mail", "direct")
	w.vhost.Queue(w.t, w.queue, m{"x-queue-type": "quorum"})
	w.vhost.Bind(w.t, "mail", w.queue, "mail")
	u, err := url.Parse(w.vhost.URL())
	if err != nil {
		w.t.Fatal("the virtual host's address is not a URL")
	}
	password, _ := u.User.Password()
	vhost, _ := url.PathUnescape(u.EscapedPath()[1:])
	w.env = append(w.env, "TEST_RABBIT_PASSWORD="+password)
	w.broker("rabbit", m{"kind": "rabbitmq", "seeds": []string{addr}, "vhost": vhost, "producer-identity": "rabbit"})
	w.file["security"] = m{"credentials": m{"rabbit": m{"mechanism": "PLAIN", "username": u.User.Username(), "password": "env:TEST_RABBIT_PASSWORD"}}}
	w.destination(rabbitDestination, m{
		"broker": "rabbit", "kind": "WORK_QUEUE", "physical": m{"exchange": "mail", "routing-key": "mail", "queue": w.queue},
		"producer": m{"confirmation": "BROKER_ACK", "timeout": publishTimeout.String()},
	})
}

func (w *world) messaging() m { return w.file["messaging"].(m) }

func (w *world) broker(name string, b m) { w.messaging()["brokers"].(m)[name] = b }

func (w *world) destination(name string, d m) { w.messaging()["destinations"].(m)[name] = d }

// set changes a section of the file.
func (w *world) set(section string, values m) {
	s, ok := w.file[section].(m)
	if !ok {
		s = m{}
		w.file[section] = s
	}
	maps.Copy(s, values)
}

// destinationFile gives the part of the file about one destination, to change it.
func (w *world) destinationFile(name string) m { return w.messaging()["destinations"].(m)[name].(m) }

// write the relay file and give its path.
func (w *world) write() string {
	w.t.Helper()
	data, err := yaml.Marshal(w.file)
	if err != nil {
		w.t.Fatal(err)
	}
	path := filepath.Join(w.t.TempDir(), "relay.yaml")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		w.t.Fatal(err)
	}
	return path
}

// insert n rows in one transaction, over the given number of keys (0: none), and give their ids in order.
func (w *world) insert(destination string, n, keys int) (ids []string) {
	w.t.Helper()
	return w.enqueue(`select messaging_outbox_add($1, 'order.created', 'shop', convert_to('{"n":' || i || '}', 'utf8'),
	    ordering_key => case when $3 > 0 then 'k' || i % greatest($3, 1) end)::text from generate_series(1, $2) i`, destination, n, keys)
}

// useRoles makes logins with the roles that relays and writers have. A schema without tables has no roles yet.
func (w *world) useRoles() {
	w.t.Helper()
	w.relayURL = w.db.URL()
	if w.number(`select (to_regclass('messaging_outbox') is not null)::integer`) == 1 {
		w.relayURL, w.writers = w.db.Account(w.t, dbtest.Worker), w.db.As(w.t, dbtest.Writer)
	}
}

// enqueue is query with the rights of a service that writes messages.
func (w *world) enqueue(sql string, args ...any) (out []string) {
	w.t.Helper()
	return w.queryBy(w.writers, sql, args...)
}

// query gives the first column of every row as text.
func (w *world) query(sql string, args ...any) (out []string) {
	w.t.Helper()
	return w.queryBy(w.db.Pool, sql, args...)
}

func (w *world) queryBy(pool *pgxpool.Pool, sql string, args ...any) (out []string) {
	w.t.Helper()
	rows, err := pool.Query(context.Background(), sql, args...)
	if err != nil {
		w.t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var s string
		if err := rows.Scan(&s); err != nil {
			w.t.Fatal(err)
		}
		out = append(out, s)
	}
	if err := rows.Err(); err != nil {
		w.t.Fatal(err)
	}
	return out
}

func (w *world) exec(sql string, args ...any) {
	w.t.Helper()
	if _, err := w.db.Exec(context.Background(), sql, args...); err != nil {
		w.t.Fatal(err)
	}
}

// number gives the one integer that the statement selects.
func (w *world) number(sql string, args ...any) (n int) {
	w.t.Helper()
	if err := w.db.QueryRow(context.Background(), sql, args...).Scan(&n); err != nil {
		w.t.Fatal(err)
	}
	return n
}

// statuses of all rows, as "PARKED 1, PUBLISHED 3".
func (w *world) statuses() string {
	w.t.Helper()
	out := w.query(`select coalesce(string_agg(status || ' ' || n, ', ' order by status), '')
	  from (select status::text, count(*) n from messaging_outbox group by 1) s`)
	return out[0]
}

// until waits for the statuses to be exactly these.
func (w *world) until(limit time.Duration, want string) {
	w.t.Helper()
	var got string
	limit = testenv.Within(limit)
	deadline := time.Now().Add(limit)
	for {
		if got = w.statuses(); got == want {
			return
		}
		if time.Now().After(deadline) {
			w.t.Fatalf("after %v the rows are %q, want %q", limit, got, want)
		}
		<-time.After(20 * time.Millisecond) // between two looks at the table
	}
}

// published waits until n rows are PUBLISHED and no other row is left.
func (w *world) published(limit time.Duration, n int) {
	w.t.Helper()
	w.until(limit, fmt.Sprintf("PUBLISHED %d", n))
}

func (w *world) capture(destination string) *brokertest.Capture {
	w.t.Helper()
	if destination == rabbitDestination {
		return brokertest.CaptureRabbit(w.t, w.vhost.URL(), w.queue)
	}
	return brokertest.CaptureKafka(w.t, brokertest.Require(w.t, "KAFKA_BOOTSTRAP"), w.topic)
}

// both are the destinations of a world with both brokers.
var both = []string{kafkaDestination, rabbitDestination}

// inOrder fails where the first deliveries of one key's messages are not in the order of ids.
func inOrder(t *testing.T, c *brokertest.Capture, ids []string) {
	t.Helper()
	at := make(map[string]int, len(ids))
	for i, id := range ids {
		at[id] = i
	}
	last, seen := map[string]int{}, map[string]bool{}
	for _, msg := range c.All() {
		if seen[msg.ID] {
			continue
		}
		seen[msg.ID] = true
		key := msg.Header("msg.ordering-key")
		i, ok := at[msg.ID]
		if !ok {
			t.Errorf("a captured id was never inserted")
		}
		if prev, ok := last[key]; ok && key != "" && i < prev {
			t.Errorf("of one key, row %d came after row %d", i, prev)
		}
		last[key] = i
	}
}

// once fails unless exactly these ids were captured, each once.
func once(t *testing.T, c *brokertest.Capture, ids []string) {
	t.Helper()
	counts := c.IDs()
	for _, id := range ids {
		if counts[id] != 1 {
			t.Errorf("a row was captured %d times, want once", counts[id])
		}
		delete(counts, id)
	}
	if len(counts) > 0 {
		t.Errorf("%d captured ids were never inserted", len(counts))
	}
}

func (w *world) databaseAddress() string {
	u, err := url.Parse(w.db.URL())
	if err != nil {
		w.t.Fatal("the database's address is not a URL")
	}
	return u.Host
}

// databaseURL is the relays' database by way of another address.
func (w *world) databaseURL(addr string) string {
	u, err := url.Parse(w.relayURL)
	if err != nil {
		w.t.Fatal("the database's address is not a URL")
	}
	u.Host = addr
	return u.String()
}

// stays fails when the statuses become others within the period.
func (w *world) stays(period time.Duration, want string) {
	w.t.Helper()
	for end := time.Now().Add(period); time.Now().Before(end); <-time.After(20 * time.Millisecond) { // between two looks
		if got := w.statuses(); got != want {
			w.t.Fatalf("the rows are %q, want them to stay %q", got, want)
		}
	}
}

// unhurried gives publishes the time of a busy machine, for cases in which nothing may be in doubt.
func (w *world) unhurried() {
	w.set("relay", m{"lease": "10s"})
	for _, d := range w.messaging()["destinations"].(m) {
		d.(m)["producer"].(m)["timeout"] = "5s"
	}
}
