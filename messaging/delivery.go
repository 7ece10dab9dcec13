package messaging

import "time"

// Delivery is one delivery of a message to a handler.
type Delivery[T any] struct {
	Envelope[T]
	Meta DeliveryMetadata
	// Hash is over the bytes that travelled, for the inbox.
	Hash PayloadHash
}

// DeliveryMetadata is what the platform knows about a delivery.
type DeliveryMetadata struct {
	Destination DestinationName
	Consumer    ConsumerName
	// Attempt is 1 for the first delivery.
	Attempt int
	// Redelivered is true only where broker or platform knows it.
	Redelivered bool
	Position    *BrokerPosition
	Unit, Group string
	ReceivedAt  time.Time
	RedriveID   RedriveID
	// RedriveCount is 0 until the message was redriven.
	RedriveCount int
}
