package config

import (
	"github.com/backend-skeleton/relay/messaging"
)

// CheckPublishing holds what a broker can do against what a destination's profile promises to publishers. The findings
// carry the YAML path of the setting that asks for too much.
func (c *Config) CheckPublishing(name string, able messaging.Capabilities) []Finding {
	k := &checker{c: c, broken: map[string]bool{}}
	dest, at := c.Messaging.Destinations[name], join("messaging.destinations", name)
	if dest.Guarantees.Delivery == AtLeastOnce && !able.BrokerAcknowledgement {
		k.find(at+".guarantees.delivery", "AT_LEAST_ONCE needs a broker that acknowledges a publish, and %s does not", dest.Broker)
	}
	if dest.Producer.Confirmation == ReplicationOrPersistenceAck && !able.ReplicationOrPersistenceEvidence {
		k.find(at+".producer.confirmation", "REPLICATION_OR_PERSISTENCE_ACK is not proved by %s; "+
			"give a Kafka topic replication and min.insync.replicas of 2 or more, or a RabbitMQ exchange quorum queues", dest.Broker)
	}
	if dest.Guarantees.Ordering == OrderingKey && !able.KeyedOrdering {
		k.find(at+".guarantees.ordering", "KEY needs a broker that keeps the order of a key here, and %s does not", dest.Broker)
	}
	if dest.Guarantees.Ordering == OrderingPartition && !able.OrderedStream {
		k.find(at+".guarantees.ordering", "PARTITION needs an ordered stream, and %s has none here", dest.Broker)
	}
	for grant, has := range each(map[string]bool{
		string(DelayedPublish): able.DelayedDelivery, string(KafkaTransaction): able.BrokerTransaction,
	}) {
		if dest.Granted(Grant(grant)) && !has {
			k.find(at+".grants", "%s cannot be granted: %s lacks the capability", grant, dest.Broker)
		}
	}
	return k.findings
}

// CheckConsuming is CheckPublishing for a consumer.
func (c *Config) CheckConsuming(name string, able messaging.Capabilities) []Finding {
	k := &checker{c: c, broken: map[string]bool{}}
	consumer, at := c.Messaging.Consumers[name], join("messaging.consumers", name)
	dest := c.Messaging.Destinations[consumer.Destination]
	settles := able.PerMessageSettlement || able.BatchSettlement
	if dest.Guarantees.Delivery == AtLeastOnce && !settles {
		k.find(at+".destination", "AT_LEAST_ONCE needs a broker that settles deliveries, and %s does not", dest.Broker)
	}
	if consumer.Granted(ManualSettlement) && !settles {
		k.find(at+".grants", "MANUAL_SETTLEMENT cannot be granted: %s lacks the capability", dest.Broker)
	}
	switch ordering := dest.Guarantees.Ordering; {
	case ordering == OrderingKey && !able.KeyedOrdering:
		k.find(at+".destination", "%s is ordered by KEY, which its queue does not keep: a RabbitMQ queue needs a single active consumer", consumer.Destination)
	case (ordering == OrderingPartition || ordering == OrderingDestination) && !able.OrderedStream:
		k.find(at+".destination", "%s is ordered by %s, and %s has no ordered stream here", consumer.Destination, ordering, dest.Broker)
	}
	if consumer.Retry.Mode == BrokerDelayed && !able.DelayedDelivery {
		k.find(at+".retry.mode", "BROKER_DELAYED needs a broker that delays deliveries, and %s does not", dest.Broker)
	}
	if consumer.Granted(KafkaTransaction) && !able.BrokerTransaction {
		k.find(at+".grants", "KAFKA_TRANSACTION cannot be granted: %s lacks the capability", dest.Broker)
	}
	return k.findings
}

// Refusal makes the error of findings that came up after loading; nil for none.
func (c *Config) Refusal(fs []Finding) error {
	if len(fs) == 0 {
		return nil
	}
	for i, f := range fs {
		if f.Line == 0 && f.Variable == "" {
			fs[i].Line = nearestLine(c.lines, f.Path)
		}
	}
	sortFindings(fs)
	return &Error{File: c.file, Findings: fs}
}

// Line is the line of a YAML path in the file, or of the nearest key around it; 0 where the file has neither.
func (c *Config) Line(path string) int { return nearestLine(c.lines, path) }
