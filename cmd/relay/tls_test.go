package main

import (
	"strings"
	"testing"

	"github.com/backend-skeleton/relay/internal/brokertest"
	"github.com/backend-skeleton/relay/internal/dbtest"
)

const tlsFile = `
messaging:
  environment: test
  brokers:
    kafka: {kind: kafka, seeds: ["<SEED>"], tls: {<TLS>}, producer-identity: producer}
  destinations:
    orders: {broker: kafka, kind: EVENT_STREAM, physical: {topic: <TOPIC>}, producer: {confirmation: BROKER_ACK}}
security: {credentials: {producer: {<CREDENTIAL>}}}
`

// The file's TLS, SCRAM and client certificates reach the broker, and a broker that cannot prove who it is is refused.
func TestCheckOverTLS(t *testing.T) {
	t.Parallel()
	topic := brokertest.Topic(t, brokertest.Require(t, "KAFKA_BOOTSTRAP"))
	db := dbtest.New(t)
	need := func(name string) string { return brokertest.Require(t, name) }
	ca := "ca: " + need("KAFKA_CA")
	otherCA := "ca: " + need("RABBITMQ_CA")
	scram := "mechanism: SCRAM-SHA-512, username: " + need("KAFKA_PRODUCER_USER") + ", password: env:PASSWORD"
	certificate := ca + ", certificate: " + need("KAFKA_CLIENT_CERT") + ", key: " + need("KAFKA_CLIENT_KEY")
	for name, c := range map[string]struct {
		seed, tls, credential string
		code                  int
		said                  string
	}{
		"SCRAM over TLS":         {need("KAFKA_SASL_TLS_BOOTSTRAP"), ca, scram, 0, "destination orders"},
		"client certificate":     {need("KAFKA_MTLS_BOOTSTRAP"), certificate, "mechanism: EXTERNAL", 0, "destination orders"},
		"another authority":      {need("KAFKA_SASL_TLS_BOOTSTRAP"), otherCA, scram, 5, "broker kafka"},
		"another host name":      {need("KAFKA_SASL_TLS_BOOTSTRAP"), ca + ", server-name: other.example", scram, 5, "broker kafka"},
		"host name not checked":  {need("KAFKA_SASL_TLS_BOOTSTRAP"), ca + ", server-name: other.example, verify-host-name: false", scram, 0, "destination orders"},
		"chain checked all same": {need("KAFKA_SASL_TLS_BOOTSTRAP"), otherCA + ", verify-host-name: false", scram, 5, "broker kafka"},
		"no such file":           {need("KAFKA_SASL_TLS_BOOTSTRAP"), "ca: absent.pem", scram, 3, "messaging.brokers.kafka.tls (line 5): ca absent.pem: no such file"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			text := strings.NewReplacer("<SEED>", c.seed, "<TLS>", c.tls, "<CREDENTIAL>", c.credential, "<TOPIC>", topic).Replace(tlsFile)
			env := []string{"RELAY_DATABASE_URL=" + db.URL(), "PASSWORD=" + need("KAFKA_PRODUCER_PASSWORD")}
			relay(t, env, "check", "--config", file(t, text)).Want(t, c.code, c.said)
		})
	}
}
