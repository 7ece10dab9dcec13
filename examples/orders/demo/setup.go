package main

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/backend-skeleton/relay/examples/orders"
)

func (s *services) kafkaSeeds() []string { return strings.Split(s.kafka, ",") }

// setUp makes database, topic and queue, migrates, and writes the relays' file.
func setUp(ctx context.Context, o options, s *services, p *processes) (*world, error) {
	w := &world{options: o, services: s, programs: p, places: newPlaces(time.Now()), started: time.Now()}
	if err := forget(ctx, o.dir, s); err != nil {
		return nil, err
	}
	if err := clearLogs(o.dir); err != nil {
		return nil, err
	}
	if err := w.places.remember(o.dir); err != nil {
		return nil, err
	}
	if err := onServer(ctx, s, "create database "+w.places.Database); err != nil {
		return nil, fmt.Errorf("create the demo's database: %w", err)
	}
	if err := p.once(ctx, w.relayEnv(0), "relay", "migrate", "up"); err != nil {
		return nil, err
	}
	var err error
	if w.db, err = pgxpool.New(ctx, w.databaseURL()); err != nil {
		return nil, err
	}
	if _, err := w.db.Exec(ctx, orders.Schema); err != nil {
		return nil, fmt.Errorf("create the example's tables: %w", err)
	}
	if err := w.places.makeTopic(ctx, s); err != nil {
		return nil, err
	}
	if err := w.places.makeQueue(s); err != nil {
		return nil, err
	}
	if w.listen, err = twoAddresses(); err != nil {
		return nil, err
	}
	return w, os.WriteFile(w.relayFile(), []byte(w.relayYAML()), 0o644)
}

// clearLogs begins the run with empty logs of the programs; the launcher's log stays.
func clearLogs(dir string) error {
	for _, name := range []string{"relay-a", "relay-b", "order-service", "order-consumer"} {
		if err := os.RemoveAll(filepath.Join(dir, "log", name+".log")); err != nil {
			return err
		}
	}
	return nil
}

func (w *world) relayFile() string { return filepath.Join(w.dir, "relay.yaml") }

func (w *world) databaseURL() string { return onDatabase(w.services.postgres, w.places.Database) }

// onDatabase is the server's URL with another database.
func onDatabase(server, database string) string {
	u, err := url.Parse(server)
	if err != nil {
		return server // pgx says what is wrong with it
	}
	u.Path = "/" + database
	return u.String()
}

// twoAddresses takes two free ports. Somebody else may take one before the relay does; then its start fails and says so.
func twoAddresses() (addrs [2]string, err error) {
	for i := range addrs {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return addrs, err
		}
		defer l.Close() // only after both are taken
		addrs[i] = l.Addr().String()
	}
	return addrs, nil
}

// relayEnv is what distinguishes the two relays, and the secrets that the file refers to.
func (w *world) relayEnv(i int) []string {
	env := []string{"RELAY_DATABASE_URL=" + w.databaseURL()}
	if w.listen[i] != "" {
		env = append(env, "RELAY_HTTP_LISTEN="+w.listen[i])
	}
	if u, err := url.Parse(w.services.rabbit); err == nil && u.User != nil {
		password, _ := u.User.Password()
		env = append(env, "DEMO_RABBITMQ_PASSWORD="+password)
	}
	return env
}

// relayYAML is the one file of both relays. Lease and timeout are short, so that a killed relay is replaced while one watches.
func (w *world) relayYAML() string {
	var b strings.Builder
	fmt.Fprintf(&b, `# Written by the demo for both relays; the database and the listener come from the environment. While the demo runs, the
# addresses are those of its proxies; afterwards those of the brokers.
messaging:
  environment: local
  brokers:
    kafka-main:
      kind: kafka
      seeds: [%q]
`, w.services.kafkaVia)
	if w.services.rabbit != "" {
		w.rabbitBroker(&b)
	}
	fmt.Fprintf(&b, `  destinations:
    order-events:
      broker: kafka-main
      kind: EVENT_STREAM
      physical: {topic: %s}
      schema: {codec: json}
      guarantees: {delivery: AT_LEAST_ONCE, ordering: KEY}
      producer: {confirmation: BROKER_ACK, timeout: 2s, request-timeout: 1s, delivery-timeout: 2s}
`, w.places.Topic)
	if w.services.rabbit != "" {
		w.rabbitDestination(&b)
	}
	b.WriteString("relay:\n  lease: 3s\n")
	if u, err := url.Parse(w.services.rabbit); err == nil && u.User != nil {
		fmt.Fprintf(&b, `security:
  credentials:
    rabbit-relay: {mechanism: PLAIN, username: %q, password: "env:DEMO_RABBITMQ_PASSWORD"}
`, u.User.Username())
	}
	return b.String()
}

func (w *world) rabbitBroker(b *strings.Builder) {
	vhost := "/"
	if u, err := url.Parse(w.services.rabbit); err == nil && len(u.Path) > 1 {
		vhost = u.Path[1:]
	}
	fmt.Fprintf(b, `    rabbit-main:
      kind: rabbitmq
      seeds: [%q]
      vhost: %q
      producer-identity: rabbit-relay
`, w.services.rabbitVia, vhost)
	if api, err := url.Parse(w.services.rabbitAPI); err == nil && api.Host != "" {
		api.User = nil
		fmt.Fprintf(b, "      management: {url: %q, identity: rabbit-relay}\n", api.String())
	}
}

func (w *world) rabbitDestination(b *strings.Builder) {
	level := "BROKER_ACK"
	if w.services.rabbitAPI != "" {
		level = "REPLICATION_OR_PERSISTENCE_ACK" // the management API shows that the queue is a quorum queue
	}
	fmt.Fprintf(b, `    email-work:
      broker: rabbit-main
      kind: WORK_QUEUE
      physical: {exchange: %s, routing-key: email, queue: %s}
      schema: {codec: json}
      guarantees: {delivery: AT_LEAST_ONCE, ordering: NONE}
      producer: {confirmation: %s, mandatory-routing: true, timeout: 2s}
`, w.places.Exchange, w.places.Queue, level)
}
