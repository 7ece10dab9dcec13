package config

import "slices"

func (k *checker) consumers() {
	for name, consumer := range each(k.c.Messaging.Consumers) {
		at := join("messaging.consumers", name)
		k.name(at, name, 200)
		if most := k.c.Handlers(); consumer.Concurrency > most {
			k.find(at+".concurrency", "%d is more than the limit of %d; raise messaging.limits.handlers with a reason", consumer.Concurrency, most)
		}
		if consumer.Destination == "" {
			continue
		}
		dest, ok := reference(k, at+".destination", consumer.Destination, "messaging.destinations", k.c.Messaging.Destinations)
		if !ok {
			continue
		}
		k.retry(at, consumer, dest)
		k.dlq(at, consumer, dest)
		k.consumerParking(at, consumer, dest)
		k.concurrency(at, consumer, dest)
		k.consumerGrants(at, consumer, dest)
		k.processing(at, consumer, dest)
		kind := k.c.Messaging.Brokers[dest.Broker].Kind
		k.subscription(at, consumer, dest, kind)
		switch kind {
		case Kafka:
			k.foreign(at, "Kafka", "queue", "prefetch")
		case RabbitMQ:
			k.foreign(at, "RabbitMQ", "group", "max-in-flight-per-partition")
			k.rabbitQueue(at, consumer, dest)
		}
	}
	k.shared()
}

func (k *checker) rabbitQueue(at string, consumer Consumer, dest Destination) {
	switch {
	case consumer.Queue != "":
	case dest.Kind == PubSub:
		k.find(at+".queue", "is missing; a PUBSUB consumer names its own queue")
	case dest.Physical.Queue == "":
		k.find(at+".queue", "is missing; neither the consumer nor its destination names a queue")
	}
}

// concurrency holds strict order against work beyond its unit.
func (k *checker) concurrency(at string, consumer Consumer, dest Destination) {
	switch ordering := dest.Guarantees.Ordering; {
	case ordering == OrderingDestination && consumer.Concurrency > 1:
		k.find(at+".concurrency", "%d is more than 1, which DESTINATION order needs", consumer.Concurrency)
	case ordering == OrderingPartition && orDefault(consumer.MaxInFlightPerPartition, 1) > 1:
		k.find(at+".max-in-flight-per-partition", "%d is more than 1, which PARTITION order needs", *consumer.MaxInFlightPerPartition)
	}
}

// subscription holds the rules of how experimental brokers share a destination; none of those brokers keeps order with
// the types that the rules name.
func (k *checker) subscription(at string, consumer Consumer, dest Destination, kind BrokerKind) {
	place := at + ".subscription"
	owner := map[SubscriptionType]BrokerKind{ShareGroup: Kafka, OrderedConsumer: NATS, SharedConsumer: Pulsar, KeyShared: Pulsar}[consumer.Subscription]
	ordered := dest.Guarantees.Ordering != OrderingNone
	switch sub := consumer.Subscription; {
	case sub == "":
	case kind != owner:
		k.find(place, "%s is a subscription of %s, and the destination is on %s", sub, owner, kind)
	case sub == ShareGroup && (ordered || dest.Kind == EventStream):
		k.find(place, "a share group keeps no order, so it cannot read an ordered stream")
	case sub == SharedConsumer && ordered:
		k.find(place, "SHARED spreads the messages of a key; %s order needs KEY_SHARED", dest.Guarantees.Ordering)
	case sub == OrderedConsumer && (dest.Kind == WorkQueue || consumer.Concurrency > 1):
		k.find(place, "an ORDERED consumer reads alone, so it cannot compete for a work queue")
	case !slices.Contains(k.c.kinds, string(kind)):
		k.find(place, "%s is experimental and not part of this program", sub)
	}
}

// processing holds what a consumer says of its effects against what its destination offers.
func (k *checker) processing(at string, consumer Consumer, dest Destination) {
	if dest.Guarantees.Processing == BrokerTransactional && !slices.Contains(consumer.Grants, KafkaTransaction) {
		k.find(at+".grants", "KAFKA_TRANSACTION is missing; %s is processed in the broker's transaction", consumer.Destination)
	}
	if dest.Guarantees.Delivery == AtMostOnce && consumer.OnExhausted == BlockExhausted {
		k.find(at+".on-exhausted", "an AT_MOST_ONCE destination has no retry, so nothing is exhausted")
	}
}
