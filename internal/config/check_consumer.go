package config

import (
	"slices"
	"time"
)

// inlineMost is the longest wait of a retry that keeps its worker.
const inlineMost = Duration(5 * time.Second)

func (k *checker) consumers() {
	owners := map[string]string{} // DLQ destination -> path of the consumer that has it
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
		k.dlq(at, consumer, dest, owners)
		k.concurrency(at, consumer, dest)
		switch k.c.Messaging.Brokers[dest.Broker].Kind {
		case Kafka:
			k.foreign(at, "Kafka", "queue", "prefetch")
		case RabbitMQ:
			k.foreign(at, "RabbitMQ", "group", "max-in-flight-per-partition")
			k.rabbitQueue(at, consumer, dest)
		}
		if slices.Contains(consumer.Grants, ManualSettlement) && consumer.ExternalSideEffect == InboxTransactional {
			k.find(at+".grants", "MANUAL_SETTLEMENT does not go with INBOX_TRANSACTIONAL: its settlement would come before the commit")
		}
	}
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

func (k *checker) concurrency(at string, consumer Consumer, dest Destination) {
	switch ordering := dest.Guarantees.Ordering; {
	case ordering == OrderingDestination && consumer.Concurrency > 1:
		k.find(at+".concurrency", "%d is more than 1, which DESTINATION order needs", consumer.Concurrency)
	case ordering == OrderingPartition && orDefault(consumer.MaxInFlightPerPartition, 1) > 1:
		k.find(at+".max-in-flight-per-partition", "%d is more than 1, which PARTITION order needs", *consumer.MaxInFlightPerPartition)
	}
}

func (k *checker) retry(at string, consumer Consumer, dest Destination) {
	r, place := consumer.Retry, at+".retry"
	if dest.Guarantees.Delivery == AtMostOnce {
		if k.set(place) {
			k.find(place, "an AT_MOST_ONCE destination has no retry: its messages are settled before they are handled")
		}
		return
	}
	if r.InitialDelay != nil && r.MaxDelay != nil && *r.InitialDelay > *r.MaxDelay {
		k.find(place+".initial-delay", "%s is more than max-delay (%s)", *r.InitialDelay, *r.MaxDelay)
	}
	reorders := r.Mode == RetryInline || r.Mode == RetryDestination || r.Mode == BrokerDelayed
	switch {
	case reorders && r.OrderingImpact == Preserve:
		k.find(place+".ordering-impact", "%s lets later messages overtake, so it cannot PRESERVE order", r.Mode)
	case reorders && dest.Guarantees.Ordering != OrderingNone:
		k.find(place+".mode", "%s breaks the %s order of the destination; use PAUSE_PARTITION or BLOCKING", r.Mode, dest.Guarantees.Ordering)
	}
	if r.Mode == RetryInline && (orDefault(r.InitialDelay, 0) > inlineMost || orDefault(r.MaxDelay, 0) > inlineMost) {
		k.find(place, "INLINE keeps its worker waiting, at most %s", inlineMost)
	}
	if r.Mode == RetryDestination && r.Jitter == JitterFull {
		k.find(place+".jitter", "a retry destination is a queue of equal waits; jitter is not possible there")
	}
	if r.Mode == BrokerDelayed {
		k.brokerDelayed(place, r, dest)
	}
}

func (k *checker) brokerDelayed(at string, r Retry, dest Destination) {
	if k.c.Messaging.Brokers[dest.Broker].Kind == Kafka {
		k.find(at+".mode", "Kafka cannot delay a delivery; use PAUSE_PARTITION or RETRY_DESTINATION")
	}
	if r.Multiplier != nil {
		k.find(at+".multiplier", "the broker's delay grows linearly; leave it out")
	}
	if r.Jitter == JitterFull {
		k.find(at+".jitter", "the broker's delay has no jitter; leave it out")
	}
}

func (k *checker) dlq(at string, consumer Consumer, dest Destination, owners map[string]string) {
	place, target := at+".dlq.destination", consumer.DLQ.Destination
	switch {
	case target == "" && k.set(at+".dlq"):
		k.find(place, "is missing; name the destination")
		return
	case target == "":
		if k.c.Messaging.Environment == Production && dest.Guarantees.Delivery == AtLeastOnce && !k.isDLQ(consumer.Destination) && !k.isParking(consumer.Destination) {
			k.find(at+".dlq", "is missing; an at-least-once consumer in production needs one")
		}
		return
	case dest.Guarantees.Delivery == AtMostOnce:
		k.find(at+".dlq", "an AT_MOST_ONCE destination has no DLQ: its failures are discarded")
		return
	case target == consumer.Destination:
		k.find(place, "points at the destination that the consumer reads")
		return
	}
	to, ok := reference(k, place, target, "messaging.destinations", k.c.Messaging.Destinations)
	switch {
	case !ok:
	case to.Broker != dest.Broker:
		k.find(place, "%s is on another broker than %s", target, consumer.Destination)
	case k.isDLQ(consumer.Destination) || k.isParking(consumer.Destination):
		k.find(place, "%s is itself a dead-letter or parking destination, which has none", consumer.Destination)
	}
	if other, taken := owners[target]; taken {
		k.find(place, "%s is the DLQ of %s already; two consumers never share one", target, other)
	}
	owners[target] = at
}

func (k *checker) isDLQ(destination string) bool {
	for _, consumer := range k.c.Messaging.Consumers {
		if consumer.DLQ.Destination == destination {
			return true
		}
	}
	return false
}

func (k *checker) isParking(destination string) bool {
	p := k.c.Messaging.Parking
	return destination == p.Schema || destination == p.Security || destination == p.ManualReview
}

func (k *checker) parking() {
	p := k.c.Messaging.Parking
	for key, name := range each(map[string]string{"schema": p.Schema, "security": p.Security, "manual-review": p.ManualReview}) {
		at := "messaging.parking." + key
		switch {
		case name != "":
			reference(k, at, name, "messaging.destinations", k.c.Messaging.Destinations)
		case k.c.Messaging.Environment == Production && len(k.c.Messaging.Consumers) > 0:
			k.find(at, "is missing; consumers in production need it")
		}
	}
}
