package brokertest

import (
	"strings"
	"testing"
)

// KafkaOptions are the settings of a Kafka of its own.
type KafkaOptions struct {
	// Nodes is 1 (the default) or 3. Three brokers have replication 3, min.insync.replicas 2 and a controller of their
	// own, node 0.
	Nodes int
	// Version is 4.3.1 by default; 4.2.2 too.
	Version string
	// Conf are lines key=value for every server.properties; values without blanks.
	Conf []string
}

// StartKafka starts a Kafka for this test alone; about 4 s for one node, 8 s and more for three. It is ended with the
// test. Names in Env are those of the shared server: KAFKA_BOOTSTRAP, KAFKA_SASL_TLS_BOOTSTRAP, …
func StartKafka(t testing.TB, o KafkaOptions) *Server {
	t.Helper()
	return start(t, "kafka.sh", map[string]any{
		"KAFKA_NODES": o.Nodes, "KAFKA_VERSION": o.Version, "KAFKA_CONF": strings.Join(o.Conf, " "),
	})
}

// RabbitOptions are the settings of a RabbitMQ of its own.
type RabbitOptions struct {
	// Nodes is 1 (the default) or 3.
	Nodes int
	// Conf are lines key=value for every rabbitmq.conf; values without blanks.
	Conf []string
}

// StartRabbitMQ starts a RabbitMQ for this test alone; about 6 s for one node, 15 s and more for three. It is ended with
// the test. Names in Env: RABBITMQ_URL_1, RABBITMQ_API_1, RABBITMQ_TLS_URL_1, …
func StartRabbitMQ(t testing.TB, o RabbitOptions) *Server {
	t.Helper()
	return start(t, "rabbitmq.sh", map[string]any{"RMQ_NODES": o.Nodes, "RMQ_CONF": strings.Join(o.Conf, " ")})
}

// StartPgBouncer starts a PgBouncer in transaction mode for this test alone, in front of the PostgreSQL at target, a
// URL; it has pool connections to the server for each database. It is ended with the test. The address is
// Env("PGBOUNCER_ADDR"); whoever connects there becomes target's user.
func StartPgBouncer(t testing.TB, target string, pool int) *Server {
	t.Helper()
	return start(t, "pgbouncer.sh", map[string]any{"PGB_TARGET": target, "PGB_POOL": pool})
}
