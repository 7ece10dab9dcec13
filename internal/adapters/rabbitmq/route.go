package rabbitmq

import (
	"fmt"
	"time"

	"github.com/backend-skeleton/relay/messaging"
	"github.com/backend-skeleton/relay/messaging/transport"
)

// Names in [transport.Endpoint.Physical] and [transport.Endpoint.Producer].
const (
	physicalExchange       = "exchange"
	physicalRoutingKey     = "routing-key"
	physicalRoutingKeyFrom = "routing-key-from"
	physicalQueue          = "queue"

	producerMandatory    = "mandatory-routing"
	producerAbandonAfter = "abandon-after"

	fromPartitionKey    = "partition-key"
	defaultAbandonAfter = 60 * time.Second

	// maxShortString is AMQP's limit for exchange, queue and routing key, in bytes.
	maxShortString = 255
)

// route is an endpoint as this edge understands it.
type route struct {
	destination  messaging.DestinationName
	exchange     string // "" is the default exchange
	routingKey   string
	perMessage   bool // the routing key is the message's partition key
	queue        string
	mandatory    bool
	abandonAfter time.Duration
}

// pipeKey tells which endpoints may share channels.
type pipeKey struct {
	destination messaging.DestinationName
	exchange    string
}

// parseRoute checks an endpoint; the error is a [messaging.ErrConfiguration].
func parseRoute(e transport.Endpoint) (*route, error) {
	r := &route{
		destination:  e.Name,
		exchange:     e.Physical[physicalExchange],
		routingKey:   e.Physical[physicalRoutingKey],
		queue:        e.Physical[physicalQueue],
		mandatory:    true,
		abandonAfter: defaultAbandonAfter,
	}
	broken := func(text string) (*route, error) {
		return nil, fmt.Errorf("rabbitmq destination %s: %w: %s", e.Name, messaging.ErrConfiguration, text)
	}
	switch e.Physical[physicalRoutingKeyFrom] {
	case "":
	case fromPartitionKey:
		r.perMessage = true
	default:
		return broken("routing-key-from is not partition-key")
	}
	if r.exchange == "" && r.routingKey == "" && !r.perMessage {
		return broken("exchange and routing-key are both empty")
	}
	for _, name := range []string{physicalExchange, physicalRoutingKey, physicalQueue} {
		if n := len(e.Physical[name]); n > maxShortString {
			return broken(fmt.Sprintf("%s has %d bytes, the limit is %d", name, n, maxShortString))
		}
	}
	if v, ok := e.Producer[producerMandatory]; ok {
		if r.mandatory, ok = v.(bool); !ok {
			return broken("mandatory-routing is not true or false")
		}
	}
	if v, ok := e.Producer[producerAbandonAfter]; ok {
		if r.abandonAfter, ok = v.(time.Duration); !ok || r.abandonAfter <= 0 {
			return broken("abandon-after is not a positive duration")
		}
	}
	return r, nil
}

func (r *route) pipeKey() pipeKey { return pipeKey{r.destination, r.exchange} }

// proofKey is what a look at the broker's queues depends on.
func (r *route) proofKey() proofKey { return proofKey{r.exchange, r.routingKey, r.perMessage} }
