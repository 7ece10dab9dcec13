package transport

import (
	"time"

	"github.com/backend-skeleton/relay/messaging"
)

// Message is encoded and ready for the wire.
type Message struct {
	// ID is zero only for a foreign message on its way to parking.
	ID messaging.MessageID
	// Key is the record key; NullKey tells null from empty.
	Key     []byte
	NullKey bool
	// Value is the payload; NullValue is a tombstone, not an empty payload.
	Value     []byte
	NullValue bool
	// Header holds every header, rendered by [EncodeHeaders].
	Header []Header
	// Native is what a foreign message's headers were on its broker; only the same
	// kind of adapter writes them back.
	Native any
	// PublishedAt becomes the record's timestamp; zero means now.
	PublishedAt time.Time
	// Delay is how long the broker keeps the message back, 0 for not at all. It is
	// set only where the capability DelayedDelivery was declared.
	Delay time.Duration
	// ReplyTo is the address of a [Replier] where an answer is awaited, "" for a
	// message that asks for none. RabbitMQ: the property reply-to.
	ReplyTo string
}

// Header is one header on the wire. Headers are ordered, and a name may repeat.
type Header struct {
	Name  string
	Value []byte
}
