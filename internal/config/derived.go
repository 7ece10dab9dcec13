package config

import (
	"strconv"
)

// derived are settings that are in force though neither the file nor a single default names them: they follow from other
// settings. Their source is "derived".
func (c *Config) derived() map[string]string {
	out := map[string]string{}
	put := func(at, text string) {
		if text != "" && !c.known[at] {
			out[at] = text
		}
	}
	for name, dest := range each(c.Messaging.Destinations) {
		at, r := join("messaging.destinations", name), c.resolve(name, dest)
		if r.BrokerKind == Kafka {
			put(at+".producer.request-timeout", Duration(r.RequestTimeout).String())
			put(at+".producer.delivery-timeout", Duration(r.DeliveryTimeout).String())
		}
		put(at+".producer.abandon-after", Duration(r.AbandonAfter).String())
		put(at+".outbox.attempts", strconv.Itoa(r.Attempts))
		put(at+".payload.max-bytes", Size(r.MaxBytes).String())
		if r.Ordering == OrderingKey {
			put(at+".outbox.head-policy", string(r.HeadPolicy))
			put(at+".outbox.keyless", string(r.Keyless))
		}
	}
	for name := range each(c.Messaging.Consumers) {
		at := join("messaging.consumers", name)
		r, _ := c.Consuming(name)
		switch r.Source.BrokerKind {
		case Kafka:
			put(at+".group", r.Group)
			put(at+".max-in-flight-per-partition", strconv.Itoa(r.PerPartition))
		case RabbitMQ:
			put(at+".queue", r.Queue)
			put(at+".prefetch", strconv.Itoa(r.Prefetch))
		}
		put(at+".unhandled", string(r.Unhandled))
		put(at+".parking.schema", r.Parking.Schema)
		put(at+".parking.security", r.Parking.Security)
		put(at+".parking.manual-review", r.Parking.ManualReview)
		if r.Delivery == AtMostOnce {
			continue
		}
		put(at+".retry.max-attempts", strconv.Itoa(r.Retry.MaxAttempts))
		if r.Retry.Mode != RetryNone {
			put(at+".retry.initial-delay", Duration(r.Retry.Initial).String())
			put(at+".retry.max-delay", Duration(r.Retry.Max).String())
			put(at+".retry.jitter", string(r.Retry.Jitter))
			put(at+".retry.ordering-impact", string(r.Retry.Impact))
		}
	}
	for name, t := range each(c.Messaging.Catalogue) {
		put(join("messaging.catalogue", name)+".compatibility", string(t.Compatible()))
	}
	return out
}
