package brokers

import (
	"maps"

	"github.com/backend-skeleton/relay/internal/config"
	"github.com/backend-skeleton/relay/messaging"
	"github.com/backend-skeleton/relay/messaging/transport"
)

// Endpoint is the part of a destination that its broker needs for publishing.
func Endpoint(d config.Served) (transport.Endpoint, error) {
	level, err := messaging.ParseConfirmationLevel(string(d.Confirmation))
	if err != nil {
		return transport.Endpoint{}, err
	}
	e := transport.Endpoint{Name: messaging.DestinationName(d.Name), Physical: d.Physical, Producer: map[string]any{
		"timeout": d.Timeout, "abandon-after": d.AbandonAfter, "confirmation": level,
	}}
	switch d.BrokerKind {
	case config.Kafka:
		e.Producer["request-timeout"], e.Producer["delivery-timeout"] = d.RequestTimeout, d.DeliveryTimeout
	case config.RabbitMQ:
		e.Producer["mandatory-routing"] = true
	}
	return e, nil
}

// ConsumerEndpoint is the part of a consumer's destination that its broker needs for consuming: the queue of a RabbitMQ
// consumer that names its own, the group of a Kafka consumer.
func ConsumerEndpoint(name string, consumer config.Consumer, d config.Served) (transport.Endpoint, error) {
	e, err := Endpoint(d)
	if err != nil {
		return e, err
	}
	if consumer.Queue != "" {
		e.Physical = maps.Clone(e.Physical)
		e.Physical["queue"] = consumer.Queue
	}
	group := consumer.Group
	if group == "" {
		group = name
	}
	e.Consumer = map[string]any{"group": group, "handler-timeout": consumer.HandlerTimeout.Std()}
	if n := consumer.MaxInFlightPerPartition; n != nil {
		e.Consumer["max-in-flight-per-partition"] = *n
	}
	return e, nil
}
