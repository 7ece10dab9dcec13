package config

import "slices"

// Which side of a destination a grant opens; what stands in both lists opens both.
var (
	publishGrants = []Grant{BatchPublish, DelayedPublish, RequestReply, RawBytes, KafkaTombstone, KafkaTransaction, KafkaHints, RabbitHints}
	consumeGrants = []Grant{BatchConsume, ManualSettlement, RequestReply, RawBytes, KafkaTombstone, KafkaTransaction}
)

// grants checks the grants of a destination. impossible are those that its broker cannot have.
func (k *checker) grants(at string, grants []Grant, impossible map[Grant]string) {
	for i, g := range grants {
		why, refused := impossible[g]
		switch {
		case g == "": // blamed already
		case refused:
			k.find(at, "%s cannot be granted: %s", g, why)
		case !slices.Contains(publishGrants, g):
			k.find(at, "%s is for consumers; write it there", g)
		case slices.Contains(grants[:i], g):
			k.find(at, "%s stands in the list twice", g)
		}
	}
}

// impossible are the grants that the kind of broker cannot have.
func impossible(kind BrokerKind) map[Grant]string {
	switch kind {
	case Kafka:
		return map[Grant]string{
			DelayedPublish: "Kafka topics cannot delay; schedule through the outbox",
			RabbitHints:    "the destination is on Kafka",
		}
	case RabbitMQ:
		return map[Grant]string{
			KafkaTombstone: "the destination is on RabbitMQ", KafkaTransaction: "the destination is on RabbitMQ",
			KafkaHints: "the destination is on RabbitMQ",
		}
	}
	return nil
}

func (k *checker) consumerGrants(at string, consumer Consumer, dest Destination) {
	at += ".grants"
	cannot := impossible(k.c.Messaging.Brokers[dest.Broker].Kind)
	for i, g := range consumer.Grants {
		why, refused := cannot[g]
		switch {
		case g == "": // blamed already
		case !slices.Contains(consumeGrants, g):
			k.find(at, "%s is for publishers; write it to the destination", g)
		case refused:
			k.find(at, "%s cannot be granted: %s", g, why)
		case slices.Contains(consumer.Grants[:i], g):
			k.find(at, "%s stands in the list twice", g)
		case g == ManualSettlement && consumer.ExternalSideEffect == InboxTransactional:
			k.find(at, "MANUAL_SETTLEMENT does not go with INBOX_TRANSACTIONAL: its settlement would come before the commit")
		case g == ManualSettlement && dest.Guarantees.Delivery == AtMostOnce:
			k.find(at, "MANUAL_SETTLEMENT does not go with AT_MOST_ONCE: its messages are settled before they are handled")
		case g == RequestReply && consumer.ExternalSideEffect == InboxTransactional:
			k.find(at, "REQUEST_REPLY does not go with INBOX_TRANSACTIONAL: a responder answers every copy of a request")
		}
	}
}

// codec checks that the program has a codec, and that raw bytes are granted.
func (k *checker) codec(at string, c Codec) {
	if c != "" && c != JSON && c != Raw && !slices.Contains(k.c.codecs, string(c)) {
		k.find(at, "%s is not available in this version; use json", c)
	}
}

func (k *checker) rawGrant(at string, dest Destination) {
	if dest.Schema.Codec == Raw && !slices.Contains(dest.Grants, RawBytes) {
		k.find(at+".schema.codec", "raw bytes go without a schema; they need the grant RAW_BYTES")
	}
}
