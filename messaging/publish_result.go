package messaging

import "time"

// PublishResult is what is known about one publish.
type PublishResult struct {
	Completion Completion
	Evidence   Evidence
	Routing    Routing
	// Position is where the broker put the message, for diagnosis; nil where it
	// did not say.
	Position *BrokerPosition
	// Attempts counts transmissions by the adapter, protocol retries included.
	Attempts int
	Elapsed  time.Duration
	// Failure is nil exactly where Completion is [Confirmed].
	Failure *Failure
}

// Evidence separates what left, what the broker accepted and what it proved.
type Evidence struct {
	QueuedLocally  bool
	Transmission   Transmission
	BrokerAccepted bool
	Level          ConfirmationLevel
}

// BrokerPosition is where a broker put a message, as text:
// "kafka:topic/partition/offset" or "rabbitmq:exchange/routing-key/sequence". It
// serves diagnosis only, never a branch of business logic.
type BrokerPosition struct{ Broker, Text string }

// String gives the text.
func (p BrokerPosition) String() string { return p.Text }

// Completion is the verdict on a publish. Zero is unset and refused.
type Completion uint8

// The verdicts.
const (
	Confirmed Completion = iota + 1 // the broker has it, at the level in the evidence
	Rejected                        // the broker does not have it
	Ambiguous                       // the broker may have it: only the same id may be tried again
)

var completionWords = words{"CONFIRMED", "REJECTED", "AMBIGUOUS"}

// ParseCompletion reads the contract's word.
func ParseCompletion(s string) (Completion, error) {
	return parseWord[Completion]("completion", completionWords, s)
}

// String gives the contract's word, "UNSET" for zero.
func (c Completion) String() string { return completionWords.text(uint8(c)) }

// MarshalText gives the contract's word; zero is an [ErrValidation].
func (c Completion) MarshalText() ([]byte, error) {
	return completionWords.marshal("completion", uint8(c))
}

// UnmarshalText reads the contract's word.
func (c *Completion) UnmarshalText(b []byte) (err error) {
	*c, err = ParseCompletion(string(b))
	return err
}

// Transmission tells whether the bytes left. Zero is unset and refused.
type Transmission uint8

// Whether the bytes left.
const (
	NotTransmitted Transmission = iota + 1
	MayHaveBeenTransmitted
	Transmitted
)

var transmissionWords = words{"NOT_TRANSMITTED", "MAY_HAVE_BEEN_TRANSMITTED", "TRANSMITTED"}

// ParseTransmission reads the contract's word.
func ParseTransmission(s string) (Transmission, error) {
	return parseWord[Transmission]("transmission", transmissionWords, s)
}

// String gives the contract's word, "UNSET" for zero.
func (t Transmission) String() string { return transmissionWords.text(uint8(t)) }

// MarshalText gives the contract's word; zero is an [ErrValidation].
func (t Transmission) MarshalText() ([]byte, error) {
	return transmissionWords.marshal("transmission", uint8(t))
}

// UnmarshalText reads the contract's word.
func (t *Transmission) UnmarshalText(b []byte) (err error) {
	*t, err = ParseTransmission(string(b))
	return err
}

// ConfirmationLevel is the strength of a broker's confirmation; a greater value
// is stronger. Zero is unset and refused.
type ConfirmationLevel uint8

// The levels, weakest first.
const (
	LevelNone                        ConfirmationLevel = iota + 1
	LevelBrokerAck                                     // the broker answered
	LevelReplicationOrPersistenceAck                   // the answer covers replicas or durable storage, seen from the broker's settings
)

var levelWords = words{"NONE", "BROKER_ACK", "REPLICATION_OR_PERSISTENCE_ACK"}

// ParseConfirmationLevel reads the contract's word.
func ParseConfirmationLevel(s string) (ConfirmationLevel, error) {
	return parseWord[ConfirmationLevel]("confirmation level", levelWords, s)
}

// String gives the contract's word, "UNSET" for zero.
func (l ConfirmationLevel) String() string { return levelWords.text(uint8(l)) }

// MarshalText gives the contract's word; zero is an [ErrValidation].
func (l ConfirmationLevel) MarshalText() ([]byte, error) {
	return levelWords.marshal("confirmation level", uint8(l))
}

// UnmarshalText reads the contract's word.
func (l *ConfirmationLevel) UnmarshalText(b []byte) (err error) {
	*l, err = ParseConfirmationLevel(string(b))
	return err
}

// Routing tells whether the broker found a place for the message. Zero is unset
// and refused.
type Routing uint8

// The routing outcomes.
const (
	RoutingNotApplicable Routing = iota + 1 // the broker has no routing step
	RoutingRouted
	RoutingUnroutable
	RoutingUnknown
)

var routingWords = words{"NOT_APPLICABLE", "ROUTED", "UNROUTABLE", "UNKNOWN"}

// ParseRouting reads the contract's word.
func ParseRouting(s string) (Routing, error) { return parseWord[Routing]("routing", routingWords, s) }

// String gives the contract's word, "UNSET" for zero.
func (r Routing) String() string { return routingWords.text(uint8(r)) }

// MarshalText gives the contract's word; zero is an [ErrValidation].
func (r Routing) MarshalText() ([]byte, error) { return routingWords.marshal("routing", uint8(r)) }

// UnmarshalText reads the contract's word.
func (r *Routing) UnmarshalText(b []byte) (err error) {
	*r, err = ParseRouting(string(b))
	return err
}
