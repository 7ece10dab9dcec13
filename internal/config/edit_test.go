package config

import (
	"errors"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// An edit is "path = value" (YAML) or "- path" (delete). Path steps are separated by a slash, since names hold dots.
func edited(t *testing.T, base string, edits ...string) string {
	t.Helper()
	var doc yaml.Node
	if err := yaml.Unmarshal([]byte(base), &doc); err != nil {
		t.Fatal(err)
	}
	for _, e := range edits {
		if path, ok := strings.CutPrefix(e, "- "); ok {
			parent, i := seek(t, doc.Content[0], strings.Split(path, "/"), false)
			parent.Content = append(parent.Content[:i], parent.Content[i+2:]...)
			continue
		}
		path, value, ok := strings.Cut(e, " = ")
		if !ok {
			t.Fatalf("edit %q", e)
		}
		var v yaml.Node
		if err := yaml.Unmarshal([]byte(value), &v); err != nil {
			t.Fatalf("edit %q: %v", e, err)
		}
		parent, i := seek(t, doc.Content[0], strings.Split(path, "/"), true)
		parent.Content[i+1] = v.Content[0]
	}
	out, err := yaml.Marshal(&doc)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// seek finds the mapping that holds the last step and the index of its key; with add it makes what is missing.
func seek(t *testing.T, n *yaml.Node, steps []string, add bool) (*yaml.Node, int) {
	t.Helper()
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value != steps[0] {
			continue
		}
		if len(steps) == 1 {
			return n, i
		}
		return seek(t, n.Content[i+1], steps[1:], add)
	}
	if !add {
		t.Fatalf("no %q to delete", steps[0])
	}
	child := &yaml.Node{Kind: yaml.MappingNode}
	n.Content = append(n.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: steps[0]}, child)
	n.Style = 0
	if len(steps) == 1 {
		return n, len(n.Content) - 2
	}
	return seek(t, child, steps[1:], add)
}

// load parses a text as if it stood in /etc/relay/relay.yaml, with an environment.
func load(t *testing.T, text string, env ...string) (*Config, []string, []Finding) {
	t.Helper()
	c, warnings, err := parse(Options{File: "/etc/relay/relay.yaml"}, text, env, lookupIn(env))
	if err == nil {
		return c, warnings, nil
	}
	var refused *Error
	if !errors.As(err, &refused) {
		t.Fatalf("%T is no *Error: %v", err, err)
	}
	if c != nil {
		t.Error("a refused configuration came back")
	}
	return nil, warnings, refused.Findings
}

// production is a file that production accepts, with one destination of each kind on each broker.
const production = `
messaging:
  environment: production
  brokers:
    kafka-primary:
      kind: kafka
      seeds: ["kafka-1:9093", "kafka-2:9093"]
      tls: {ca: ca.pem}
      producer-identity: kafka-producer
      consumer-identity: kafka-consumer
    rabbit-primary:
      kind: rabbitmq
      seeds: ["rabbit-1:5671"]
      vhost: /
      tls: {ca: ca.pem}
      producer-identity: rabbit-producer
      consumer-identity: rabbit-consumer
      management: {url: "https://rabbit-1:15671", identity: rabbit-reader}
  destinations:
    order-events:
      broker: kafka-primary
      kind: EVENT_STREAM
      physical: {topic: order.events.v1}
      schema: {codec: json, compatibility: BACKWARD_TRANSITIVE}
      guarantees: {delivery: AT_LEAST_ONCE, ordering: KEY}
      producer: {confirmation: REPLICATION_OR_PERSISTENCE_ACK, timeout: 5s}
      outbox: {head-policy: BLOCK, keyless: refuse, key-from: aggregate-id}
      payload: {max-bytes: 1048576}
    order-events-dlq: {broker: kafka-primary, kind: EVENT_STREAM, physical: {topic: order.events.v1.dlt}, schema: {codec: json}}
    kafka-work: {broker: kafka-primary, kind: WORK_QUEUE, physical: {topic: work}}
    kafka-command: {broker: kafka-primary, kind: COMMAND, physical: {topic: commands}, guarantees: {ordering: PARTITION}}
    kafka-pubsub: {broker: kafka-primary, kind: PUBSUB, physical: {topic: news}}
    schema-parking: {broker: kafka-primary, kind: EVENT_STREAM, physical: {topic: parking.schema}}
    security-parking: {broker: kafka-primary, kind: EVENT_STREAM, physical: {topic: parking.security}}
    manual-review-parking: {broker: kafka-primary, kind: EVENT_STREAM, physical: {topic: parking.review}}
    email-work:
      broker: rabbit-primary
      kind: WORK_QUEUE
      physical: {exchange: notification.work, routing-key: email, queue: notification.email.q}
      schema: {codec: json}
      guarantees: {delivery: AT_LEAST_ONCE, ordering: NONE}
      producer: {confirmation: REPLICATION_OR_PERSISTENCE_ACK, mandatory-routing: true, timeout: 5s}
    email-work-dlq: {broker: rabbit-primary, kind: WORK_QUEUE, physical: {exchange: notification.dead, routing-key: email, queue: notification.email.dlq}}
    rabbit-schema-parking: {broker: rabbit-primary, kind: WORK_QUEUE, physical: {exchange: parking, routing-key: schema, queue: parking.schema.q}}
    rabbit-security-parking: {broker: rabbit-primary, kind: WORK_QUEUE, physical: {exchange: parking, routing-key: security, queue: parking.security.q}}
    rabbit-review-parking: {broker: rabbit-primary, kind: WORK_QUEUE, physical: {exchange: parking, routing-key: review, queue: parking.review.q}}
    rabbit-events: {broker: rabbit-primary, kind: EVENT_STREAM, physical: {exchange: events, routing-key-from: partition-key}, guarantees: {ordering: KEY}}
    rabbit-command: {broker: rabbit-primary, kind: COMMAND, physical: {exchange: commands, routing-key: pay, queue: pay.q}}
    rabbit-pubsub: {broker: rabbit-primary, kind: PUBSUB, physical: {exchange: news}}
  consumers:
    order-projection:
      destination: order-events
      group: order-projection
      concurrency: 6
      max-in-flight-per-partition: 1
      handler-timeout: 30s
      retry: {mode: PAUSE_PARTITION, max-attempts: 3, initial-delay: 200ms, max-delay: 2s, ordering-impact: PRESERVE}
      dlq: {destination: order-events-dlq}
      external-side-effect: INBOX_TRANSACTIONAL
      unhandled: IGNORE
    email-sender:
      destination: email-work
      concurrency: 8
      prefetch: 16
      handler-timeout: 30s
      external-side-effect: IDEMPOTENCY_REQUIRED
      retry: {mode: RETRY_DESTINATION, max-attempts: 5, initial-delay: 1s, max-delay: 5m, ordering-impact: ALLOW_REORDER}
      dlq: {destination: email-work-dlq}
      parking: {schema: rabbit-schema-parking, security: rabbit-security-parking, manual-review: rabbit-review-parking}
  catalogue:
    order.created: {kind: INTEGRATION_EVENT, versions: [1, 2], codec: json, schema: schemas/order.created, compatibility: BACKWARD_TRANSITIVE}
  parking: {schema: schema-parking, security: security-parking, manual-review: manual-review-parking}
database: {url: "env:ORDERS_DATABASE"}
inbox: {retention: 30d, assumed-broker-retention: 7d, windows: {dlq: 14d, replay: 7d, redrive: 7d, margin: 1d}}
relay: {serve: ["order-*", email-work, kafka-*, rabbit-*]}
security:
  credentials:
    kafka-producer: {mechanism: SCRAM-SHA-512, username: relay, password: "env:KAFKA_PASSWORD"}
    kafka-consumer: {mechanism: SCRAM-SHA-512, username: orders, password: "env:KAFKA_CONSUMER_PASSWORD"}
    rabbit-producer: {mechanism: PLAIN, username: relay, password: "file:rabbit-password"}
    rabbit-consumer: {mechanism: PLAIN, username: orders, password: "env:RABBIT_CONSUMER_PASSWORD"}
    rabbit-reader: {mechanism: PLAIN, username: reader, password: "env:RABBIT_READER_PASSWORD"}
`

// local is the smallest useful file.
const local = `
messaging:
  environment: local
  brokers:
    kafka: {kind: kafka, seeds: ["127.0.0.1:9092"]}
    rabbit: {kind: rabbitmq, seeds: ["127.0.0.1:5672"], producer-identity: guest}
  destinations:
    order-events: {broker: kafka, kind: EVENT_STREAM, physical: {topic: orders}, producer: {confirmation: BROKER_ACK}}
    email-work: {broker: rabbit, kind: WORK_QUEUE, physical: {exchange: mail, routing-key: email, queue: mail.q}, producer: {confirmation: BROKER_ACK}}
  consumers:
    order-projection: {destination: order-events}
    email-sender: {destination: email-work}
security: {credentials: {guest: {mechanism: PLAIN, username: guest, password: "env:RABBITMQ_PASSWORD"}}}
`
