package config

import (
	"regexp"
	"slices"
	"time"
)

var (
	topicForm = regexp.MustCompile(`^[A-Za-z0-9._-]{1,249}$`)
	typeForm  = regexp.MustCompile(`^[a-z][a-z0-9_-]*(\.[a-z0-9_-]+)+$`)
)

// deliveryMargin is how much shorter than the publish timeout a client's own delivery timeout may be.
const deliveryMargin = Duration(time.Second)

// leaseMargin is what a publish may need beyond its timeout, to hear what the client knows of it; it still fits into the
// lease.
const leaseMargin = Duration(250 * time.Millisecond)

func (k *checker) catalogue() {
	m := k.c.Messaging
	if len(m.Catalogue) == 0 && m.Environment != "" && m.Environment != Local && m.Environment != Test {
		k.find("messaging.catalogue", "is missing; only local and test environments run without one")
	}
	for name, t := range each(m.Catalogue) {
		at := join("messaging.catalogue", name)
		if len(name) > 240 || !typeForm.MatchString(name) {
			k.find(at, "a message type is lower case and dotted, such as order.created, of up to 240 characters")
		}
		if k.set(at+".versions") && len(t.Versions) == 0 {
			k.find(at+".versions", "is empty; write at least one, such as [1]")
		}
		for i, v := range t.Versions {
			if slices.Contains(t.Versions[:i], v) {
				k.find(at+".versions", "holds %d twice", v)
			}
		}
		k.codec(at+".codec", t.Codec)
		if t.Codec == Raw && t.Schema != "" {
			k.find(at+".schema", "raw bytes have no schema; leave it out")
		}
	}
}

func (k *checker) destinations() {
	if len(k.c.Messaging.Brokers) == 0 && len(k.c.Messaging.Destinations) > 0 {
		k.find("messaging.brokers", "is missing; destinations need a broker")
		return
	}
	for name, dest := range each(k.c.Messaging.Destinations) {
		at := join("messaging.destinations", name)
		k.destinationName(at, name)
		k.codec(at+".schema.codec", dest.Schema.Codec)
		k.rawGrant(at, dest)
		k.payload(at+".payload", dest.Payload)
		k.outbox(at+".outbox", dest)
		k.confirmation(at+".producer.confirmation", dest)
		if dest.Guarantees.Ordering == OrderingDestination && k.c.serves(name) {
			k.find(at+".guarantees.ordering", "DESTINATION order cannot be kept by a fleet of relays; use KEY, or leave it out of relay.serve")
		}
		k.timeouts(at+".producer", dest.Producer, k.c.serves(name), k.c.Messaging.Brokers[dest.Broker].Kind)
		if dest.Broker == "" {
			continue
		}
		broker, ok := reference(k, at+".broker", dest.Broker, "messaging.brokers", k.c.Messaging.Brokers)
		if !ok {
			continue
		}
		k.grants(at+".grants", dest.Grants, impossible(broker.Kind))
		if dest.Guarantees.Processing == BrokerTransactional && broker.Kind != Kafka {
			k.find(at+".guarantees.processing", "BROKER_TRANSACTIONAL needs the transactions of Kafka")
		}
		if k.c.CDC.Enabled && k.c.serves(name) && broker.Kind != Kafka {
			k.find(at+".broker", "change data capture publishes to Kafka alone; leave %s out of relay.serve", name)
		}
		switch broker.Kind {
		case Kafka:
			k.kafkaDestination(at, dest)
		case RabbitMQ:
			k.rabbitDestination(at, dest, broker)
		}
	}
}

func (k *checker) payload(at string, p Payload) {
	if p.MaxBytes != nil && !k.broken[at+".max-bytes"] && int64(*p.MaxBytes) > k.c.LogicalPayload() && p.Reason == "" {
		k.find(at+".reason", "is missing; max-bytes is above the logical limit of %s, so say why", Size(k.c.LogicalPayload()))
	}
}

func (k *checker) outbox(at string, dest Destination) {
	if b := dest.Outbox.Backoff; b != (BackoffOverride{}) {
		k.backoff(at+".backoff", b.over(k.c.Relay.Backoff))
	}
	if dest.Guarantees.Ordering != OrderingKey {
		if dest.Outbox.HeadPolicy != "" {
			k.warn(at+".head-policy", "has no effect without ordering: KEY")
		}
		if dest.Outbox.Keyless != "" {
			k.warn(at+".keyless", "has no effect without ordering: KEY")
		}
	}
}

func (k *checker) confirmation(at string, dest Destination) {
	if k.guarded() && dest.Producer.Confirmation == BrokerAck {
		k.find(at, "BROKER_ACK is not enough in %s; use REPLICATION_OR_PERSISTENCE_ACK", k.c.Messaging.Environment)
	}
}

func (k *checker) timeouts(at string, p Producer, served bool, kind BrokerKind) {
	if lease := k.c.Relay.Lease; served && p.Timeout+leaseMargin >= lease {
		k.find(at+".timeout", "%s must be shorter than relay.lease (%s) less %s", p.Timeout, lease, leaseMargin)
	}
	if p.RequestTimeout != nil && *p.RequestTimeout > p.Timeout {
		k.find(at+".request-timeout", "%s is more than timeout (%s)", *p.RequestTimeout, p.Timeout)
	}
	delivery := p.delivery()
	if p.Timeout > delivery+deliveryMargin {
		k.find(at+".delivery-timeout", "%s is too short; it is at least timeout (%s) less %s", delivery, p.Timeout, deliveryMargin)
	}
	switch after := p.AbandonAfter; {
	case after == nil:
	case kind == RabbitMQ && *after < p.Timeout: // which has no delivery timeout
		k.find(at+".abandon-after", "%s is less than timeout (%s)", *after, p.Timeout)
	case kind != RabbitMQ && *after < delivery:
		k.find(at+".abandon-after", "%s is less than the delivery timeout (%s)", *after, delivery)
	}
}

// foreign reports keys that belong to another kind of broker.
func (k *checker) foreign(at, broker string, paths ...string) {
	for _, p := range paths {
		if k.set(at + "." + p) {
			k.find(at+"."+p, "has no meaning on %s; leave it out", broker)
		}
	}
}

func (k *checker) kafkaDestination(at string, dest Destination) {
	k.foreign(at, "Kafka", "physical.exchange", "physical.routing-key", "physical.routing-key-from", "physical.queue",
		"producer.mandatory-routing", "producer.confirms", "producer.returns")
	switch topic := dest.Physical.Topic; {
	case topic == "":
		k.find(at+".physical.topic", "is missing; a destination on Kafka needs its topic")
	case !topicForm.MatchString(topic) || topic == "." || topic == "..":
		k.find(at+".physical.topic", "a topic is of a-z A-Z 0-9 . _ - and up to 249 characters")
	}
	if p := dest.Producer.Idempotence; p != nil && !*p {
		k.find(at+".producer.idempotence", "the idempotent producer is always on")
	}
	if acks := dest.Producer.Acks; acks != "" && acks != "all" {
		k.find(at+".producer.acks", "a stable producer waits for all in-sync replicas; write all or leave it out")
	}
}

func (k *checker) rabbitDestination(at string, dest Destination, broker Broker) {
	k.foreign(at, "RabbitMQ", "physical.topic", "producer.request-timeout", "producer.delivery-timeout",
		"producer.idempotence", "producer.acks")
	p := dest.Physical
	if p.Exchange == "" {
		k.find(at+".physical.exchange", "is missing; a destination on RabbitMQ needs its exchange")
	}
	for key, text := range each(map[string]string{"exchange": p.Exchange, "routing-key": p.RoutingKey, "queue": p.Queue}) {
		if len(text) > 255 {
			k.find(at+".physical."+key, "is longer than 255 bytes")
		}
	}
	switch {
	case p.RoutingKey != "" && p.RoutingKeyFrom != "":
		k.find(at+".physical.routing-key-from", "stands beside routing-key; only one of them can be")
	case p.RoutingKey == "" && !k.set(at+".physical.routing-key-from") && dest.Kind != PubSub:
		k.find(at+".physical.routing-key", "is missing; write routing-key, or routing-key-from: partition-key")
	}
	for key, on := range each(map[string]*bool{
		"confirms": dest.Producer.Confirms, "returns": dest.Producer.Returns, "mandatory-routing": dest.Producer.MandatoryRouting,
	}) {
		if on != nil && !*on {
			k.find(at+".producer."+key, "a stable RabbitMQ producer always has confirms, returns and mandatory routing on")
		}
	}
	if dest.Producer.Confirmation == ReplicationOrPersistenceAck && broker.Management == nil {
		k.find(at+".producer.confirmation", "REPLICATION_OR_PERSISTENCE_ACK on RabbitMQ is proved by the management API; "+
			"give %s.management, or accept BROKER_ACK in local, test or development", join("messaging.brokers", dest.Broker))
	}
	if dest.Guarantees.Ordering == OrderingPartition {
		k.find(at+".guarantees.ordering", "RabbitMQ has no partitions; use KEY or NONE")
	}
}
