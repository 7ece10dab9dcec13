package config

import (
	"strings"
	"testing"
)

const (
	kd = "messaging/destinations/order-events/"
	rd = "messaging/destinations/email-work/"
	kb = "messaging/brokers/kafka-primary/"
	rb = "messaging/brokers/rabbit-primary/"
	kc = "messaging/consumers/order-projection/"
	rc = "messaging/consumers/email-sender/"
)

// Each row breaks one rule of the production file and expects exactly the findings that it names, "path: part".
var rules = []struct {
	name  string
	edits []string
	want  []string
}{
	// the tree
	{"unknown key", []string{"relay/leese = 3s"}, []string{"relay.leese: is not a known key; did you mean lease?"}},
	{"unknown top-level key", []string{"kafka = {}"}, []string{"kafka: is not a known key; known are admin, cdc,"}},
	{"environment missing", []string{"- messaging/environment"}, []string{"messaging.environment: is missing; it is one of local,"}},
	{"environment unknown", []string{"messaging/environment = prod"}, []string{`messaging.environment: "prod" is not one of local,`}},
	{"kind missing", []string{"- " + kd + "kind"}, []string{"messaging.destinations.order-events.kind: is missing"}},
	{"a value instead of a mapping", []string{"relay = 30s"}, []string{"relay: must be a mapping of settings"}},
	{"a mapping instead of a value", []string{"relay/lease = {a: 1}"}, []string{"relay.lease: must be a single value, a duration such as 30s (1s to 1h)"}},
	{"a value instead of a list", []string{"relay/serve = order-events"}, []string{"relay.serve: must be a list"}},
	{"a key without value", []string{"relay/lease = null"}, []string{"relay.lease: has no value"}},
	{"a number for a text", []string{kd + "physical/topic = 1.5"}, []string{"messaging.destinations.order-events.physical.topic: must be text"}},
	{"empty text", []string{kd + `physical/topic = ""`}, []string{"messaging.destinations.order-events.physical.topic: is empty"}},
	{"line break in a text", []string{rd + `physical/routing-key = "a\nb"`}, []string{"messaging.destinations.email-work.physical.routing-key: holds a control character"}},
	{"yes is no boolean", []string{rb + "tls/enabled = yes"}, []string{`messaging.brokers.rabbit-primary.tls.enabled: "yes" is not a boolean`}},
	{"size with an unknown unit", []string{kd + "payload/max-bytes = 1MB"}, []string{`messaging.destinations.order-events.payload.max-bytes: "1MB" is not a size`}},
	{"size over the hard limit", []string{kd + "payload = {max-bytes: 9MiB, reason: bench}"}, []string{`messaging.destinations.order-events.payload.max-bytes: "9MiB" is out of range (1B to 8MiB)`}},
	{"hexadecimal number", []string{"relay/batch = 0x10"}, []string{`relay.batch: "0x10" is not a whole number (1 to 1000)`}},
	{"number in quotes", []string{`relay/batch = "10"`}, []string{`relay.batch: "10" is not a whole number`}},

	// relay
	{"served name unknown", []string{"relay/serve = [order-event]"}, []string{"relay.serve[0]: no destination has this name; did you mean order-events?"}},
	{"serve empty", []string{"relay/serve = []"}, []string{"relay.serve: is empty"}},
	{"glob broken", []string{`relay/serve = ["order-[", "*"]`}, []string{`relay.serve[0]: "order-[" is not a glob`}},
	{"publish timeout not shorter than the lease", []string{"relay/lease = 4s"}, repeated(12, "producer.timeout: 5s must be shorter than relay.lease (4s) less 250ms")},
	{"poll not shorter than the lease", []string{"relay/poll = 30s"}, []string{"relay.poll: 30s must be shorter than relay.lease (30s)"}},
	{"backoff turned round", []string{"relay/backoff = {initial: 10m}"}, []string{"relay.backoff.initial: 10m is more than relay.backoff.max (5m)"}},
	{"breaker turned round", []string{"relay/breaker = {open-for: 40s}"}, []string{"relay.breaker.open-for: 40s is more than relay.breaker.open-max (30s)"}},
	{"listener without port", []string{"http/listen = localhost"}, []string{"http.listen: is not an address"}},

	// what this version does not have
	{"admin", []string{"admin/enabled = true"}, []string{"admin.enabled: is not available in this version"}},
	{"change data capture", []string{"cdc/enabled = true", "relay/serve = [order-events]"}, []string{"cdc.enabled: is not available in this version"}},
	{"experimental", []string{"experimental/enabled = true"}, []string{"experimental.enabled: is not available in this version"}},
	{"traces", []string{"observability/traces = {enabled: true}"}, []string{"observability.traces.enabled: is not available in this version"}},
	{"claim check", []string{"claim-check/stores = {main: {kind: file, directory: /data}}"}, []string{"claim-check.stores: is not available in this version"}},
	{"codec", []string{kd + "schema/codec = avro"}, []string{"messaging.destinations.order-events.schema.codec: avro is not available in this version"}},
	{"codec of the catalogue", []string{"messaging/catalogue/order.created/codec = protobuf"}, []string{"messaging.catalogue[order.created].codec: protobuf is not available in this version"}},
	{"experimental broker", []string{kb + "kind = nats"}, []string{"messaging.brokers.kafka-primary.kind: nats is experimental and not part of this program"}},
	{"oauth", []string{"security/credentials/kafka-producer/mechanism = OAUTHBEARER"}, []string{"security.credentials.kafka-producer.mechanism: OAUTHBEARER is not available in this version"}},
	{"topology by administrators' tool", []string{"messaging/topology/mode = ADMIN_MANAGED"}, []string{"messaging.topology.mode: ADMIN_MANAGED is not available in this version"}},

	// staging and production
	{"topology created", []string{"messaging/topology/mode = AUTO_CREATE_DEV"}, []string{"messaging.topology.mode: topology is never created by the relay in production"}},
	{"topology created in staging", []string{"messaging/environment = staging", "messaging/topology/mode = AUTO_CREATE_DEV"}, []string{"messaging.topology.mode: topology is never created by the relay in staging"}},
	{"no TLS", []string{"- " + kb + "tls"}, []string{"messaging.brokers.kafka-primary.tls: TLS is needed in production"}},
	{"TLS off", []string{kb + "tls/enabled = false"}, []string{"messaging.brokers.kafka-primary.tls: TLS is needed in production"}},
	{"no TLS in staging", []string{"messaging/environment = staging", "- " + rb + "tls"}, []string{"messaging.brokers.rabbit-primary.tls: TLS is needed in staging"}},
	{"host name not verified", []string{rb + "tls/verify-host-name = false"}, []string{"messaging.brokers.rabbit-primary.tls.verify-host-name: host names are always checked in production"}},
	{"no producer authentication", []string{"- " + kb + "producer-identity"}, []string{"messaging.brokers.kafka-primary.producer-identity: is missing; broker authentication is needed in production"}},
	{"no consumer authentication", []string{"- " + rb + "consumer-identity"}, []string{"messaging.brokers.rabbit-primary.consumer-identity: is missing; broker authentication"}},
	{"RabbitMQ without producer", []string{"- " + rb + "producer-identity"}, []string{"messaging.brokers.rabbit-primary.producer-identity: is missing; RabbitMQ always asks"}},
	{"one identity for both", []string{kb + "consumer-identity = kafka-producer"}, []string{"messaging.brokers.kafka-primary.consumer-identity: must differ from producer-identity in production"}},
	{"management without TLS", []string{rb + `management/url = "http://rabbit-1:15672"`}, []string{"messaging.brokers.rabbit-primary.management.url: TLS is needed in production"}},
	{"management without identity", []string{"- " + rb + "management/identity"}, []string{"messaging.brokers.rabbit-primary.management.identity: is missing"}},
	{"acknowledgement too weak", []string{kd + "producer/confirmation = BROKER_ACK"}, []string{"messaging.destinations.order-events.producer.confirmation: BROKER_ACK is not enough in production"}},
	{"acknowledgement too weak in staging", []string{"messaging/environment = staging", rd + "producer/confirmation = BROKER_ACK"}, []string{"messaging.destinations.email-work.producer.confirmation: BROKER_ACK is not enough in staging"}},
	{"no catalogue", []string{"- messaging/catalogue"}, []string{"messaging.catalogue: is missing"}},
	{"no DLQ", []string{"- " + kc + "dlq"}, []string{"messaging.consumers.order-projection.dlq: is missing"}},
	{"no parking", []string{"- messaging/parking/security"}, []string{"messaging.parking.security: is missing"}},

	// brokers and credentials
	{"seeds missing", []string{"- " + kb + "seeds"}, []string{"messaging.brokers.kafka-primary.seeds: is missing; it is a list"}},
	{"seeds empty", []string{kb + "seeds = []"}, []string{"messaging.brokers.kafka-primary.seeds: is empty"}},
	{"seed without port", []string{kb + "seeds = [kafka-1]"}, []string{"messaging.brokers.kafka-primary.seeds[0]: must be host:port, such as"}},
	{"seed as URL", []string{rb + `seeds = ["amqps://rabbit-1:5671"]`}, []string{"messaging.brokers.rabbit-primary.seeds[0]: must be host:port alone"}},
	{"seed twice", []string{kb + `seeds = ["a:1", "a:1"]`}, []string{"messaging.brokers.kafka-primary.seeds[1]: stands in the list twice"}},
	{"vhost of Kafka", []string{kb + "vhost = /"}, []string{"messaging.brokers.kafka-primary.vhost: Kafka has no virtual hosts"}},
	{"management of Kafka", []string{kb + `management = {url: "https://k", identity: rabbit-reader}`}, []string{"messaging.brokers.kafka-primary.management: Kafka has no management API"}},
	{"management with password", []string{rb + `management/url = "https://u:S3cr3t@rabbit-1:15671"`}, []string{"messaging.brokers.rabbit-primary.management.url: must not hold user, password"}},
	{"management with the wrong mechanism", []string{rb + "management/identity = kafka-producer"}, []string{"messaging.brokers.rabbit-primary.management.identity: the management API takes a PLAIN credential"}},
	{"identity unknown", []string{kb + "producer-identity = kafka-produzer"}, []string{`messaging.brokers.kafka-primary.producer-identity: "kafka-produzer" is not in security.credentials; did you mean kafka-producer?`}},
	{"SCRAM on RabbitMQ", []string{rb + "producer-identity = kafka-producer"}, []string{"messaging.brokers.rabbit-primary.producer-identity: RabbitMQ does not know SCRAM-SHA-512"}},
	{"client certificate missing", []string{"security/credentials/kafka-producer = {mechanism: EXTERNAL}"}, []string{"messaging.brokers.kafka-primary.producer-identity: EXTERNAL needs tls with certificate and key"}},
	{"client certificate with password", []string{"security/credentials/rabbit-reader/mechanism = EXTERNAL"}, []string{"messaging.brokers.rabbit-primary.management.identity: the management API takes", "security.credentials.rabbit-reader: EXTERNAL proves itself"}},
	{"certificate without key", []string{kb + "tls/certificate = client.pem"}, []string{"messaging.brokers.kafka-primary.tls: certificate and key go together"}},
	{"mechanism missing", []string{"- security/credentials/kafka-producer/mechanism"}, []string{"security.credentials.kafka-producer.mechanism: is missing"}},
	{"username missing", []string{"- security/credentials/kafka-producer/username"}, []string{"security.credentials.kafka-producer.username: is missing"}},
	{"password missing", []string{"- security/credentials/kafka-producer/password"}, []string{"security.credentials.kafka-producer.password: is missing"}},
	{"password in the file", []string{"security/credentials/kafka-producer/password = S3cr3t"}, []string{"security.credentials.kafka-producer.password: a secret never stands in the file"}},
	{"password in the database URL", []string{`database/url = "postgres://relay:S3cr3t@db/orders"`}, []string{"database.url: a password never stands in the file"}},
	{"password as a parameter", []string{`database/url = "postgres://relay@db/orders?password=S3cr3t"`}, []string{"database.url: a password never stands in the file"}},
	{"password as a keyword", []string{`database/url = "host=db user=relay password=S3cr3t"`}, []string{"database.url: a password never stands in the file"}},
	{"database of another kind", []string{`database/url = "mysql://db/orders"`}, []string{"database.url: is not a PostgreSQL URL"}},
	{"destinations without brokers", []string{"- messaging/brokers"}, []string{"messaging.brokers: is missing"}},

	// destinations
	{"name too long", []string{"messaging/destinations/" + strings.Repeat("ü", 161) + " = {broker: kafka-primary, kind: PUBSUB, physical: {topic: t}}"}, []string{"the name is longer than 160 characters"}},
	{"name with capitals", []string{"messaging/destinations/Orders = {broker: kafka-primary, kind: PUBSUB, physical: {topic: t}}"}, []string{"messaging.destinations.Orders: the name must be of lower-case letters"}},
	{"broker unknown", []string{kd + "broker = kafka"}, []string{`messaging.consumers.order-projection.dlq.destination: order-events-dlq is on another broker`, `messaging.destinations.order-events.broker: "kafka" is not in messaging.brokers`}},
	{"topic missing", []string{"- " + kd + "physical/topic"}, []string{"messaging.destinations.order-events.physical.topic: is missing"}},
	{"topic of a form that Kafka refuses", []string{kd + "physical/topic = order events"}, []string{"messaging.destinations.order-events.physical.topic: a topic is of"}},
	{"exchange on Kafka", []string{kd + "physical/exchange = e"}, []string{"messaging.destinations.order-events.physical.exchange: has no meaning on Kafka"}},
	{"mandatory routing on Kafka", []string{kd + "producer/mandatory-routing = true"}, []string{"messaging.destinations.order-events.producer.mandatory-routing: has no meaning on Kafka"}},
	{"idempotence off", []string{kd + "producer/idempotence = false"}, []string{"messaging.destinations.order-events.producer.idempotence: the idempotent producer is always on"}},
	{"acks not all", []string{kd + "producer/acks = leader"}, []string{"messaging.destinations.order-events.producer.acks: a stable producer waits for all"}},
	{"exchange missing", []string{"- " + rd + "physical/exchange"}, []string{"messaging.destinations.email-work.physical.exchange: is missing"}},
	{"topic on RabbitMQ", []string{rd + "physical/topic = t"}, []string{"messaging.destinations.email-work.physical.topic: has no meaning on RabbitMQ"}},
	{"no routing key", []string{"- " + rd + "physical/routing-key"}, []string{"messaging.destinations.email-work.physical.routing-key: is missing"}},
	{"both routing keys", []string{rd + "physical/routing-key-from = partition-key"}, []string{"messaging.destinations.email-work.physical.routing-key-from: stands beside routing-key"}},
	{"routing key from a header", []string{"- " + rd + "physical/routing-key", rd + "physical/routing-key-from = header"}, []string{`messaging.destinations.email-work.physical.routing-key-from: "header" is not one of partition-key`}},
	{"routing key too long", []string{rd + "physical/routing-key = " + strings.Repeat("k", 256)}, []string{"messaging.destinations.email-work.physical.routing-key: is longer than 255 bytes"}},
	{"mandatory routing off", []string{rd + "producer/mandatory-routing = false"}, []string{"messaging.destinations.email-work.producer.mandatory-routing: a stable RabbitMQ producer always has"}},
	{"confirms off", []string{rd + "producer/confirms = false"}, []string{"messaging.destinations.email-work.producer.confirms: a stable RabbitMQ producer always has"}},
	{"returns off", []string{rd + "producer/returns = false"}, []string{"messaging.destinations.email-work.producer.returns: a stable RabbitMQ producer always has"}},
	{"persistence cannot be proved", []string{"- " + rb + "management"}, repeated(8, "producer.confirmation: REPLICATION_OR_PERSISTENCE_ACK on RabbitMQ is proved by the management API")},
	{"partition order on RabbitMQ", []string{rd + "guarantees/ordering = PARTITION"}, []string{"messaging.consumers.email-sender.retry.mode: RETRY_DESTINATION breaks", "messaging.destinations.email-work.guarantees.ordering: RabbitMQ has no partitions"}},
	{"destination order served", []string{kd + "guarantees/ordering = DESTINATION"}, []string{"messaging.consumers.order-projection.concurrency: 6 is more than 1", "messaging.destinations.order-events.guarantees.ordering: DESTINATION order cannot be kept by a fleet"}},
	{"request timeout over the timeout", []string{kd + "producer/request-timeout = 6s"}, []string{"messaging.destinations.order-events.producer.request-timeout: 6s is more than timeout (5s)"}},
	{"delivery timeout too short", []string{kd + "producer/delivery-timeout = 3s"}, []string{"messaging.destinations.order-events.producer.delivery-timeout: 3s is too short"}},
	{"abandoned before the delivery timeout", []string{kd + "producer = {delivery-timeout: 2m, abandon-after: 1m}"}, []string{"messaging.destinations.order-events.producer.abandon-after: 1m is less than the delivery timeout (2m)"}},
	{"abandoned before the timeout on RabbitMQ", []string{rd + "producer/abandon-after = 4s"}, []string{"messaging.destinations.email-work.producer.abandon-after: 4s is less than timeout (5s)"}},
	{"request timeout on RabbitMQ", []string{rd + "producer/request-timeout = 1s"}, []string{"messaging.destinations.email-work.producer.request-timeout: has no meaning on RabbitMQ"}},
	{"payload raised without reason", []string{kd + "payload/max-bytes = 2MiB"}, []string{"messaging.destinations.order-events.payload.reason: is missing"}},
	{"backoff of a destination turned round", []string{kd + "outbox/backoff = {initial: 10m}"}, []string{"messaging.destinations.order-events.outbox.backoff.initial: 10m is more than"}},
	{"grant of another broker", []string{rd + "grants = [KAFKA_TOMBSTONE]"}, []string{"messaging.destinations.email-work.grants: KAFKA_TOMBSTONE cannot be granted"}},
	{"delay granted on Kafka", []string{kd + "grants = [DELAYED_PUBLISH]"}, []string{"messaging.destinations.order-events.grants: DELAYED_PUBLISH cannot be granted: Kafka topics cannot delay"}},
	{"unknown grant", []string{kd + "grants = [EVERYTHING]"}, []string{`messaging.destinations.order-events.grants[0]: "EVERYTHING" is not one of`}},

	// catalogue and limits
	{"message type with capitals", []string{"messaging/catalogue/OrderCreated = {kind: COMMAND, versions: [1]}"}, []string{"messaging.catalogue.OrderCreated: a message type is lower case"}},
	{"schema of raw bytes", []string{"messaging/catalogue/order.created/codec = raw"}, []string{"messaging.catalogue[order.created].schema: raw bytes have no schema"}},
	{"versions missing", []string{"- messaging/catalogue/order.created/versions"}, []string{"messaging.catalogue[order.created].versions: is missing"}},
	{"versions empty", []string{"messaging/catalogue/order.created/versions = []"}, []string{"messaging.catalogue[order.created].versions: is empty"}},
	{"version 0", []string{"messaging/catalogue/order.created/versions = [0]"}, []string{`messaging.catalogue[order.created].versions[0]: "0" is out of range (1 to 2147483647)`}},
	{"version twice", []string{"messaging/catalogue/order.created/versions = [1, 1]"}, []string{"messaging.catalogue[order.created].versions: holds 1 twice"}},
	{"limit raised without reason", []string{"messaging/limits/handlers = {value: 32}"}, []string{"messaging.limits.handlers.reason: is missing"}},
	{"header limit raised", []string{"messaging/limits = {headers-count: {value: 65, reason: bench}, header-value: {value: 5KiB, reason: bench}}"}, []string{"messaging.limits.headers-count.value: cannot be raised above 64", "messaging.limits.header-value.value: cannot be raised above 4KiB"}},
	{"limit without value", []string{"messaging/limits/handlers = {reason: bench}"}, []string{"messaging.limits.handlers.value: is missing"}},
	{"limit out of range", []string{"messaging/limits/logical-payload = {value: 16MiB, reason: bench}"}, []string{`messaging.limits.logical-payload.value: "16MiB" is out of range (1B to 8MiB)`}},
	{"unknown limit", []string{"messaging/limits/payload = {value: 1MiB}"}, []string{"messaging.limits.payload: is not a known key"}},

	// consumers
	{"consumer of an unknown destination", []string{kc + "destination = orders"}, []string{`messaging.consumers.order-projection.destination: "orders" is not in messaging.destinations`}},
	{"more handlers than the limit", []string{rc + "concurrency = 17"}, []string{"messaging.consumers.email-sender.concurrency: 17 is more than the limit of 16"}},
	{"order kept by a retry destination", []string{rc + "retry/ordering-impact = PRESERVE"}, []string{"messaging.consumers.email-sender.retry.ordering-impact: RETRY_DESTINATION lets later messages overtake"}},
	{"key order with a retry destination", []string{kc + "retry = {mode: RETRY_DESTINATION, ordering-impact: ALLOW_REORDER}"}, []string{"messaging.consumers.order-projection.retry.mode: RETRY_DESTINATION breaks the KEY order"}},
	{"jitter in a retry destination", []string{rc + "retry/jitter = full"}, []string{"messaging.consumers.email-sender.retry.jitter: a retry destination is a queue of equal waits"}},
	{"delays turned round", []string{rc + "retry/initial-delay = 10m"}, []string{"messaging.consumers.email-sender.retry.initial-delay: 10m is more than max-delay (5m)"}},
	{"long inline wait", []string{rc + "retry = {mode: INLINE, initial-delay: 6s}"}, []string{"messaging.consumers.email-sender.retry: INLINE keeps its worker waiting, at most 5s"}},
	{"broker delay on Kafka", []string{kd + "guarantees/ordering = NONE", "- " + kd + "outbox", kc + "retry = {mode: BROKER_DELAYED}"}, []string{"messaging.consumers.order-projection.retry.mode: Kafka cannot delay a delivery"}},
	{"broker delay with multiplier", []string{rc + "retry = {mode: BROKER_DELAYED, multiplier: 2}"}, []string{"messaging.consumers.email-sender.retry.multiplier: the broker's delay grows linearly"}},
	{"DLQ at itself", []string{kc + "dlq/destination = order-events"}, []string{"messaging.consumers.order-projection.dlq.destination: points at the destination that the consumer reads"}},
	{"DLQ on another broker", []string{kc + "dlq/destination = rabbit-events"}, []string{"messaging.consumers.order-projection.dlq.destination: rabbit-events is on another broker"}},
	{"DLQ unknown", []string{kc + "dlq/destination = nowhere"}, []string{`messaging.consumers.order-projection.dlq.destination: "nowhere" is not in messaging.destinations`}},
	{"DLQ empty", []string{kc + "dlq = {}"}, []string{"messaging.consumers.order-projection.dlq.destination: is missing; name the destination"}},
	{"DLQ shared", []string{"messaging/consumers/second = {destination: kafka-work, dlq: {destination: order-events-dlq}}"}, []string{"messaging.consumers.second.dlq.destination: order-events-dlq is the DLQ of messaging.consumers.order-projection already"}},
	{"DLQ cycle", []string{"messaging/consumers/back = {destination: order-events-dlq, dlq: {destination: kafka-work}}"}, []string{"messaging.consumers.back.dlq.destination: order-events-dlq is itself a dead-letter or parking destination"}},
	{"retry of at-most-once", []string{kd + "guarantees/delivery = AT_MOST_ONCE"}, []string{"messaging.consumers.order-projection.dlq: an AT_MOST_ONCE destination has no DLQ", "messaging.consumers.order-projection.retry: an AT_MOST_ONCE destination has no retry"}},
	{"queue on Kafka", []string{kc + "queue = q"}, []string{"messaging.consumers.order-projection.queue: has no meaning on Kafka"}},
	{"group on RabbitMQ", []string{rc + "group = g"}, []string{"messaging.consumers.email-sender.group: has no meaning on RabbitMQ"}},
	{"PUBSUB consumer without queue", []string{"messaging/consumers/news = {destination: rabbit-pubsub, dlq: {destination: rabbit-command}, parking: {schema: rabbit-schema-parking, security: rabbit-security-parking, manual-review: rabbit-review-parking}}"}, []string{"messaging.consumers.news.queue: is missing; a PUBSUB consumer names its own queue"}},
	{"partition order in parallel", []string{kd + "guarantees/ordering = PARTITION", kc + "max-in-flight-per-partition = 2"}, []string{"messaging.consumers.order-projection.max-in-flight-per-partition: 2 is more than 1"}},
	{"manual settlement with the inbox", []string{kc + "grants = [MANUAL_SETTLEMENT]"}, []string{"messaging.consumers.order-projection.grants: MANUAL_SETTLEMENT does not go with INBOX_TRANSACTIONAL"}},
	{"partition order with a retry destination", []string{kd + "guarantees/ordering = PARTITION", kc + "retry = {mode: RETRY_DESTINATION}"}, []string{"messaging.consumers.order-projection.retry.mode: RETRY_DESTINATION breaks the PARTITION order"}},
	{"inline retry of ordered keys", []string{kc + "retry = {mode: INLINE}"}, []string{"messaging.consumers.order-projection.retry.mode: INLINE breaks the KEY order"}},
	{"attempts without mode", []string{kc + "retry = {max-attempts: 3}"}, []string{"messaging.consumers.order-projection.retry.max-attempts: 3 attempts need a mode"}},
	{"verdict on the message retried", []string{kc + "retry/retryable = [THROTTLED, VALIDATION]"}, []string{"messaging.consumers.order-projection.retry.retryable: VALIDATION is a verdict on the message"}},
	{"category in both lists", []string{kc + "retry/retryable = [THROTTLED]", kc + "retry/non-retryable = [THROTTLED]"}, []string{"messaging.consumers.order-projection.retry.retryable: THROTTLED stands in non-retryable too"}},
	{"DLQ at the same topic", []string{"messaging/destinations/order-events-dlq/physical/topic = order.events.v1"}, []string{"messaging.consumers.order-projection.dlq.destination: order-events-dlq is the same place as order-events"}},
	{"DLQ at the same queue", []string{"messaging/destinations/email-work-dlq/physical/queue = notification.email.q"}, []string{"messaging.consumers.email-sender.dlq.destination: email-work-dlq is the same place as email-work"}},
	{"DLQ cycle of two", []string{"messaging/consumers/a = {destination: kafka-work, dlq: {destination: kafka-pubsub}}", "messaging/consumers/b = {destination: kafka-pubsub, dlq: {destination: kafka-work}}"}, []string{"messaging.consumers.a.dlq.destination: kafka-work is itself a dead-letter", "messaging.consumers.b.dlq.destination: kafka-pubsub is itself a dead-letter"}},
	{"DLQ shared under two names", []string{"messaging/destinations/alias = {broker: kafka-primary, kind: EVENT_STREAM, physical: {topic: order.events.v1.dlt}}", "messaging/consumers/second = {destination: kafka-work, dlq: {destination: alias}}"}, []string{"messaging.consumers.second.dlq.destination: alias is the DLQ of messaging.consumers.order-projection already"}},
	{"retry stages shared on a queue", []string{"messaging/consumers/mailer = {destination: email-work, retry: {mode: RETRY_DESTINATION}, dlq: {destination: rabbit-command}, parking: {schema: rabbit-schema-parking, security: rabbit-security-parking, manual-review: rabbit-review-parking}}"}, []string{"messaging.consumers.mailer.retry.mode: its retry stages are those of messaging.consumers.email-sender.retry already"}},
	{"parking on another broker", []string{"- " + rc + "parking/schema"}, []string{"messaging.consumers.email-sender.parking.schema: schema-parking is on another broker than email-work"}},
	{"parking is the DLQ", []string{"messaging/parking/manual-review = order-events-dlq", "- messaging/destinations/manual-review-parking"}, []string{"messaging.parking.manual-review: order-events-dlq is a DLQ; parking places are separate"}},
	{"parking of a consumer unknown", []string{rc + "parking/schema = nowhere"}, []string{`messaging.consumers.email-sender.parking.schema: "nowhere" is not in messaging.destinations`}},
	{"parking where a consumer reads", []string{rc + "parking/schema = email-work"}, []string{"messaging.consumers.email-sender.dlq.destination: email-work is itself a dead-letter or parking", "messaging.consumers.email-sender.parking.schema: email-work is the same place as email-work, which a consumer reads"}},
	{"manual settlement of at-most-once", []string{"messaging/destinations/kafka-pubsub/guarantees = {delivery: AT_MOST_ONCE}", "messaging/consumers/news = {destination: kafka-pubsub, grants: [MANUAL_SETTLEMENT]}"}, []string{"messaging.consumers.news.grants: MANUAL_SETTLEMENT does not go with AT_MOST_ONCE"}},
	{"responder with the inbox", []string{kc + "grants = [REQUEST_REPLY]"}, []string{"messaging.consumers.order-projection.grants: REQUEST_REPLY does not go with INBOX_TRANSACTIONAL"}},
	{"publisher's grant at a consumer", []string{kc + "grants = [BATCH_PUBLISH]"}, []string{"messaging.consumers.order-projection.grants: BATCH_PUBLISH is for publishers"}},
	{"consumer's grant at a destination", []string{kd + "grants = [BATCH_CONSUME]"}, []string{"messaging.destinations.order-events.grants: BATCH_CONSUME is for consumers"}},
	{"grant twice", []string{kc + "grants = [BATCH_CONSUME, BATCH_CONSUME]"}, []string{"messaging.consumers.order-projection.grants: BATCH_CONSUME stands in the list twice"}},
	{"grant of another broker at a consumer", []string{rc + "grants = [KAFKA_TRANSACTION]"}, []string{"messaging.consumers.email-sender.grants: KAFKA_TRANSACTION cannot be granted: the destination is on RabbitMQ"}},
	{"raw bytes without grant", []string{kd + "schema/codec = raw"}, []string{"messaging.destinations.order-events.schema.codec: raw bytes go without a schema; they need the grant RAW_BYTES"}},
	{"broker's transaction without grant", []string{kd + "guarantees/processing = BROKER_TRANSACTIONAL"}, []string{"messaging.consumers.order-projection.grants: KAFKA_TRANSACTION is missing"}},
	{"broker's transaction on RabbitMQ", []string{"messaging/destinations/rabbit-command/guarantees = {processing: BROKER_TRANSACTIONAL}"}, []string{"messaging.destinations.rabbit-command.guarantees.processing: BROKER_TRANSACTIONAL needs the transactions of Kafka"}},
	{"change data capture of RabbitMQ", []string{"cdc/enabled = true", "relay/serve = [order-events, email-work]"}, []string{"cdc.enabled: is not available", "messaging.destinations.email-work.broker: change data capture publishes to Kafka alone"}},
	{"exhausted at most once", []string{"messaging/destinations/kafka-pubsub/guarantees = {delivery: AT_MOST_ONCE}", "messaging/consumers/news = {destination: kafka-pubsub, on-exhausted: BLOCK}"}, []string{"messaging.consumers.news.on-exhausted: an AT_MOST_ONCE destination has no retry"}},
	{"share group of an ordered stream", []string{kc + "subscription = SHARE_GROUP"}, []string{"messaging.consumers.order-projection.subscription: a share group keeps no order"}},
	{"share group", []string{"messaging/consumers/worker = {destination: kafka-work, subscription: SHARE_GROUP, dlq: {destination: kafka-pubsub}}"}, []string{"messaging.consumers.worker.subscription: SHARE_GROUP is experimental and not part of this program"}},
	{"subscription of another broker", []string{rc + "subscription = KEY_SHARED"}, []string{"messaging.consumers.email-sender.subscription: KEY_SHARED is a subscription of pulsar, and the destination is on rabbitmq"}},
	{"Pulsar Shared with key order", []string{kb + "kind = pulsar", kc + "subscription = SHARED", "messaging/destinations/kafka-command/guarantees = {}"}, []string{"messaging.brokers.kafka-primary.kind: pulsar is experimental", "messaging.consumers.order-projection.subscription: SHARED spreads the messages of a key; KEY order needs KEY_SHARED"}},
	{"NATS ordered consumer on a work queue", []string{kb + "kind = nats", "messaging/consumers/worker = {destination: kafka-work, subscription: ORDERED, dlq: {destination: kafka-pubsub}}"}, []string{"messaging.brokers.kafka-primary.kind: nats is experimental", "messaging.consumers.worker.subscription: an ORDERED consumer reads alone"}},
	{"consumer name with capitals", []string{"messaging/consumers/Orders = {destination: kafka-work, dlq: {destination: kafka-pubsub}}"}, []string{"messaging.consumers.Orders: the name must be of a-z 0-9 . _ -"}},
	{"consumer name too long", []string{"messaging/consumers/" + strings.Repeat("c", 201) + " = {destination: kafka-work, dlq: {destination: kafka-pubsub}}"}, []string{"the name is longer than 200 characters"}},
	{"broker name with a space", []string{`messaging/brokers/my broker = {kind: kafka, seeds: ["k:1"], tls: {}}`}, []string{"messaging.brokers[my broker]: the name must be of a-z 0-9 . _ -"}},
	{"stable broker as experimental", []string{kb + "experimental = true"}, []string{"messaging.brokers.kafka-primary.experimental: kafka is a stable broker"}},
	{"consumer without any queue", []string{"messaging/consumers/reader = {destination: rabbit-events, dlq: {destination: rabbit-command}, parking: {schema: rabbit-schema-parking, security: rabbit-security-parking, manual-review: rabbit-review-parking}}"}, []string{"messaging.consumers.reader.queue: is missing; neither the consumer nor its destination names a queue"}},
	{"grant twice at a destination", []string{kd + "grants = [BATCH_PUBLISH, BATCH_PUBLISH]"}, []string{"messaging.destinations.order-events.grants: BATCH_PUBLISH stands in the list twice"}},
	{"unknown grant at a consumer", []string{kc + "grants = [EVERYTHING]"}, []string{`messaging.consumers.order-projection.grants[0]: "EVERYTHING" is not one of`}},
	{"category twice", []string{kc + "retry/retryable = [THROTTLED, THROTTLED]"}, []string{"messaging.consumers.order-projection.retry.retryable: THROTTLED stands in the list twice"}},
	{"broker delay with jitter", []string{rc + "retry = {mode: BROKER_DELAYED, jitter: full}"}, []string{"messaging.consumers.email-sender.retry.jitter: the broker's delay has no jitter"}},
	{"destination order in parallel", []string{"messaging/destinations/quiet = {broker: kafka-primary, kind: EVENT_STREAM, physical: {topic: quiet}, guarantees: {ordering: DESTINATION}}", "messaging/consumers/reader = {destination: quiet, concurrency: 2, dlq: {destination: kafka-pubsub}}"}, []string{"messaging.consumers.reader.concurrency: 2 is more than 1, which DESTINATION order needs"}},
	{"identity of no credentials", []string{"- security"}, repeated(5, `is not in security.credentials, which is empty`)},
	{"listener of the admin plane", []string{"admin/listen = 8081"}, []string{"admin.listen: is not an address"}},
	{"secret of another form", []string{"security/credentials/kafka-producer/password = vault:x"}, []string{"security.credentials.kafka-producer.password: a secret never stands in the file"}},
	{"share group in local order", []string{kd + "guarantees/ordering = PARTITION", kc + "subscription = SHARE_GROUP"}, []string{"messaging.consumers.order-projection.subscription: a share group keeps no order"}},

	// inbox
	{"inbox that forgets too early", []string{"inbox/retention = 28d"}, []string{"inbox.retention: 28d is less than 29d, how late a message may come back"}},
	{"inbox that forgets too early in staging", []string{"messaging/environment = staging", "inbox/windows/redrive = 9d"}, []string{"inbox.retention: 30d is less than 31d"}},
	{"broker retention unknown", []string{"- inbox/assumed-broker-retention"}, []string{"inbox.assumed-broker-retention: is missing; an INBOX_TRANSACTIONAL consumer in production"}},

	{"parking unknown", []string{"messaging/parking/schema = nowhere"}, []string{`messaging.parking.schema: "nowhere" is not in messaging.destinations`}},
	{"tenant twice", []string{"security/tenants = [acme, acme]"}, []string{"security.tenants[1]: stands in the list twice"}},
}

func repeated(n int, text string) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = text
	}
	return out
}

func TestRules(t *testing.T) {
	t.Parallel()
	for _, r := range rules {
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			text := edited(t, production, r.edits...)
			_, _, findings := load(t, text)
			lines := strings.Count(text, "\n")
			var got []string
			for _, f := range findings {
				got = append(got, f.Path+": "+f.Message)
				if f.Line < 1 || f.Line > lines {
					t.Errorf("%s: line %d of %d", f.Path, f.Line, lines)
				}
				if strings.Contains(f.String(), "S3cr3t") {
					t.Errorf("%s shows a secret", f.Path)
				}
			}
			if len(got) != len(r.want) {
				t.Fatalf("%d findings, want %d:\n%s", len(got), len(r.want), strings.Join(got, "\n"))
			}
			for _, w := range r.want {
				if !anyContains(got, w) {
					t.Errorf("no finding %q in\n%s", w, strings.Join(got, "\n"))
				}
			}
		})
	}
}

func anyContains(texts []string, part string) bool {
	for _, t := range texts {
		if strings.Contains(t, part) {
			return true
		}
	}
	return false
}

// The local file may do without what production demands; these are accepted there.
func TestAcceptedOutsideProduction(t *testing.T) {
	t.Parallel()
	for _, edit := range []string{
		"messaging/environment = test", "messaging/consumers = {}",
		"messaging/destinations/order-events/producer = {confirmation: REPLICATION_OR_PERSISTENCE_ACK}",
		"messaging/brokers/kafka/tls = {verify-host-name: false}",
		"messaging/limits = {handlers: {value: 32, reason: bench of May}, producer-in-flight: {value: 10}}",
		"messaging/destinations/order-events/payload = {max-bytes: 8MiB, reason: bench of May}",
		"relay/serve = [order-events]", "relay = {lease: 6s, drain: 1h}",
		"messaging/destinations/" + strings.Repeat("ü", 160) + " = {broker: kafka, kind: PUBSUB, physical: {topic: t}}",
		"messaging/destinations/email-work/producer = {confirmation: BROKER_ACK, abandon-after: 6s}",
		"messaging/destinations/email-work/producer = {confirmation: BROKER_ACK, confirms: true, returns: true, mandatory-routing: true}",
		"messaging/destinations/order-events/producer = {confirmation: BROKER_ACK, timeout: 6s, request-timeout: 6s, delivery-timeout: 5s, acks: all, idempotence: true}",
		"database/url = postgres://relay@db/orders", `database/url = "file:/run/secrets/url"`,
		"inbox = {retention: 30d, assumed-broker-retention: 7d, windows: {dlq: 14d, replay: 7d, redrive: 7d, margin: 1d}}",
		"inbox = {retention: 1d, assumed-broker-retention: 7d}", // nobody relies on it
		"messaging/consumers/order-projection = {destination: order-events, external-side-effect: INBOX_TRANSACTIONAL}",
	} {
		if _, _, findings := load(t, edited(t, local, edit)); findings != nil {
			t.Errorf("%s: %v", edit, findings)
		}
	}
}

// Each edit goes as far as its rule lets it, in production.
func TestWhatIsJustWithinItsBoundIsAccepted(t *testing.T) {
	t.Parallel()
	handOver := ", dlq: {destination: kafka-pubsub}}"
	for name, edits := range map[string][]string{
		"consumer name":    {"messaging/consumers/" + strings.Repeat("c", 200) + " = {destination: kafka-work" + handOver},
		"handlers":         {rc + "concurrency = 16"},
		"poll":             {"relay/poll = 29s"},
		"lease":            {"relay/lease = 5251ms"},
		"backoff":          {"relay/backoff = {initial: 5m, max: 5m}"},
		"breaker":          {"relay/breaker = {open-for: 30s, open-max: 30s}"},
		"topic":            {kd + "physical/topic = " + strings.Repeat("t", 249)},
		"routing key":      {rd + "physical/routing-key = " + strings.Repeat("k", 255)},
		"request timeout":  {kd + "producer/request-timeout = 5s"},
		"delivery timeout": {kd + "producer/delivery-timeout = 4s"},
		"abandon":          {kd + "producer = {delivery-timeout: 2m, abandon-after: 2m}"},
		"payload":          {kd + "payload = {max-bytes: 8MiB, reason: bench}"},
		"inline wait":      {rc + "retry = {mode: INLINE, initial-delay: 5s, max-delay: 5s}"},
		"delays":           {rc + "retry/initial-delay = 5m"},
		"attempts":         {rc + "retry/max-attempts = 1000"},
		"order, one each":  {kd + "guarantees/ordering = PARTITION", kc + "concurrency = 16"},
		"inbox":            {"inbox/retention = 29d"},
		"message type":     {"messaging/catalogue/" + strings.Repeat("a", 238) + ".b = {kind: COMMAND, versions: [2147483647]}"},
	} {
		if _, _, findings := load(t, edited(t, production, edits...)); findings != nil {
			t.Errorf("%s: %v", name, findings)
		}
	}
}

// Of one partition several keys may run beside each other: the order of each is kept.
func TestKeysOfAPartitionMayRunInParallel(t *testing.T) {
	t.Parallel()
	c, warnings, findings := load(t, edited(t, production, kc+"max-in-flight-per-partition = 4"))
	if findings != nil || len(warnings) > 0 {
		t.Fatal(findings, warnings)
	}
	if plan, _ := c.Consuming("order-projection"); plan.PerPartition != 4 {
		t.Errorf("%+v", plan)
	}
}

// DESTINATION order is legal where the relay does not serve it.
func TestDestinationOrderMayStandUnserved(t *testing.T) {
	t.Parallel()
	text := edited(t, local, "messaging/destinations/order-events/guarantees = {ordering: DESTINATION}", "relay/serve = [email-work]")
	if _, _, findings := load(t, text); findings != nil {
		t.Error(findings)
	}
}

func TestOverridesAreListedForTheLog(t *testing.T) {
	t.Parallel()
	c, _, findings := load(t, edited(t, local,
		"messaging/limits = {handlers: {value: 32, reason: bench A}, producer-in-flight: {value: 10}}",
		"messaging/destinations/order-events/payload = {max-bytes: 2MiB, reason: bench B}"))
	if findings != nil {
		t.Fatal(findings)
	}
	want := []Override{
		{"messaging.limits.handlers", 32, 16, "bench A"},
		{"messaging.destinations.order-events.payload.max-bytes", 2 << 20, 1 << 20, "bench B"},
	}
	got := c.Overrides()
	if len(got) != len(want) || got[0] != want[0] || got[1] != want[1] {
		t.Errorf("%+v", got)
	}
}

func TestWarnings(t *testing.T) {
	t.Parallel()
	_, warnings, findings := load(t, edited(t, local,
		"messaging/environment = development", "messaging/catalogue = {order.created: {kind: COMMAND, versions: [1]}}",
		"relay/serve = [order-*, nothing-*]", "messaging/destinations/order-events/outbox = {head-policy: SKIP, keyless: allow}",
		"security/credentials/k = {mechanism: PLAIN, username: u, password: env:P}", "messaging/brokers/kafka/producer-identity = k"))
	if findings != nil {
		t.Fatal(findings)
	}
	for _, part := range []string{"nothing-", "head-policy", "keyless", "PLAIN"} {
		if !anyContains(warnings, part) {
			t.Errorf("no warning about %s in %q", part, warnings)
		}
	}
	if len(warnings) != 5 {
		t.Errorf("%q", warnings)
	}
}
