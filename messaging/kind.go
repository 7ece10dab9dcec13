package messaging

// MessageKind is the kind of a catalogued message type. Zero is unset and refused.
type MessageKind uint8

// The values of MessageKind.
const (
	KindCommand MessageKind = iota + 1
	KindDomainEvent
	KindIntegrationEvent
	KindWorkItem
)

var messageKindWords = words{"COMMAND", "DOMAIN_EVENT", "INTEGRATION_EVENT", "WORK_ITEM"}

// ParseMessageKind reads the contract's word.
func ParseMessageKind(s string) (MessageKind, error) {
	return parseWord[MessageKind]("message kind", messageKindWords, s)
}

// String gives the contract's word, "UNSET" for zero.
func (m MessageKind) String() string { return messageKindWords.text(uint8(m)) }

// MarshalText gives the contract's word; zero is an [ErrValidation].
func (m MessageKind) MarshalText() ([]byte, error) {
	return messageKindWords.marshal("message kind", uint8(m))
}

// UnmarshalText reads the contract's word.
func (m *MessageKind) UnmarshalText(b []byte) (err error) {
	*m, err = ParseMessageKind(string(b))
	return err
}

// IsEvent tells whether the kind states a business fact, which needs the time at
// which it occurred.
func (m MessageKind) IsEvent() bool { return m == KindDomainEvent || m == KindIntegrationEvent }

// DestinationKind is what a destination is used for. Zero is unset and refused.
type DestinationKind uint8

// The values of DestinationKind.
const (
	DestinationCommand DestinationKind = iota + 1
	DestinationEventStream
	DestinationWorkQueue
	DestinationPubSub
)

var destinationKindWords = words{"COMMAND", "EVENT_STREAM", "WORK_QUEUE", "PUBSUB"}

// ParseDestinationKind reads the contract's word.
func ParseDestinationKind(s string) (DestinationKind, error) {
	return parseWord[DestinationKind]("destination kind", destinationKindWords, s)
}

// String gives the contract's word, "UNSET" for zero.
func (d DestinationKind) String() string { return destinationKindWords.text(uint8(d)) }

// MarshalText gives the contract's word; zero is an [ErrValidation].
func (d DestinationKind) MarshalText() ([]byte, error) {
	return destinationKindWords.marshal("destination kind", uint8(d))
}

// UnmarshalText reads the contract's word.
func (d *DestinationKind) UnmarshalText(b []byte) (err error) {
	*d, err = ParseDestinationKind(string(b))
	return err
}
