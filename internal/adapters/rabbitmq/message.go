package rabbitmq

import (
	"fmt"
	"strconv"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/backend-skeleton/relay/messaging"
	"github.com/backend-skeleton/relay/messaging/transport"
)

// outgoing is a message as the client library takes it, and within every limit
// that the library would answer by closing the whole connection.
type outgoing struct {
	routingKey string
	publishing amqp.Publishing
	// propertyBytes is the content header's payload. It travels in one frame, so
	// the frame size agreed with the broker limits it.
	propertyBytes int
}

// Sizes of the content header, in bytes: class, weight, body size, flags; and of
// the frame around it.
const (
	contentHeaderBytes = 2 + 2 + 8 + 2
	frameBytes         = 1 + 2 + 4 + 1
)

// encode maps a message to properties and headers table. Every header travels in
// the table as a long string; the properties repeat some of them.
func encode(r *route, m *transport.Message, maxBody int) (outgoing, *messaging.Failure) {
	if len(m.Value) > maxBody {
		return outgoing{}, tooLarge(fmt.Sprintf("the message has %d bytes, the limit is %d", len(m.Value), maxBody))
	}
	key := r.routingKey
	if r.perMessage {
		if from, ok := partitionKey(m); ok {
			key = from
		}
	}
	if len(key) > maxShortString {
		return outgoing{}, messaging.NewFailure(messaging.CategoryValidation, messaging.CodeRoutingKeyTooLong,
			fmt.Sprintf("the routing key has %d bytes, the limit is %d", len(key), maxShortString))
	}
	out := outgoing{
		routingKey:    key,
		propertyBytes: contentHeaderBytes + 4, // the table's own length
		publishing: amqp.Publishing{
			Headers:      make(amqp.Table, len(m.Header)),
			DeliveryMode: amqp.Persistent,
			Body:         m.Value,
			Timestamp:    m.PublishedAt,
		},
	}
	if out.publishing.Timestamp.IsZero() {
		out.publishing.Timestamp = time.Now()
	}
	for i := range m.Header {
		if f := out.header(&m.Header[i]); f != nil {
			return outgoing{}, f
		}
	}
	if len(out.publishing.Headers) != len(m.Header) {
		return outgoing{}, headerRejected("a header name is repeated, a headers table cannot hold it")
	}
	if !m.ID.IsZero() {
		out.publishing.MessageId = m.ID.String()
	}
	p := &out.publishing
	for _, text := range []string{p.MessageId, p.Type, p.ContentType, p.CorrelationId, p.AppId} {
		if text != "" {
			out.propertyBytes += 1 + len(text)
		}
	}
	out.propertyBytes += 1 + 8 // delivery mode, timestamp
	return out, nil
}

// header puts one header into the table, and into its property where it has one.
func (o *outgoing) header(h *transport.Header) *messaging.Failure {
	switch {
	case h.Name == "" || len(h.Name) > maxShortString:
		return headerRejected("a header name has " + strconv.Itoa(len(h.Name)) + " bytes, allowed are 1 to " + strconv.Itoa(maxShortString))
	case h.Name == "CC" || h.Name == "BCC":
		return headerRejected("the broker takes headers CC and BCC as further routing keys")
	}
	value := string(h.Value)
	o.publishing.Headers[h.Name] = value
	o.propertyBytes += 1 + len(h.Name) + 1 + 4 + len(value)
	if len(value) > maxShortString {
		return nil // too long for a property; the header carries it
	}
	switch h.Name {
	case transport.HeaderID:
		o.publishing.MessageId = value
	case transport.HeaderType:
		o.publishing.Type = value
	case transport.HeaderContentType:
		o.publishing.ContentType = value
	case transport.HeaderCorrelation:
		o.publishing.CorrelationId = value
	case transport.HeaderProducer:
		o.publishing.AppId = value
	}
	return nil
}

// fits tells whether the properties fit into one frame of the agreed size; zero
// is no limit.
func (o *outgoing) fits(frameSize int) *messaging.Failure {
	if frameSize == 0 || o.propertyBytes+frameBytes <= frameSize {
		return nil
	}
	return headerRejected(fmt.Sprintf("headers and properties have %d bytes, one frame holds %d", o.propertyBytes, frameSize-frameBytes))
}

// partitionKey is the header's value: the record key may be the ordering key.
func partitionKey(m *transport.Message) (string, bool) {
	for i := range m.Header {
		if m.Header[i].Name == transport.HeaderPartitionKey {
			return string(m.Header[i].Value), true
		}
	}
	return "", false
}

func headerRejected(text string) *messaging.Failure {
	return messaging.NewFailure(messaging.CategoryValidation, messaging.CodeHeaderRejected, text)
}

// position is where the broker took the message, for diagnosis.
func (e *entry) position() *messaging.BrokerPosition {
	return &messaging.BrokerPosition{
		Broker: "rabbitmq",
		Text:   "rabbitmq:" + e.route.exchange + "/" + e.message.routingKey + "/" + strconv.FormatUint(e.tag, 10),
	}
}
