package messaging

import "time"

// Decision is what becomes of a delivery whose handler did not succeed: one of
// [RetryInline], [PauseAndRetry], [PublishToRetryDestination], [ReturnToBroker],
// [Park], [DeadLetterDecision] and [RejectDecision].
type Decision interface{ decision() }

// RetryInline tries again in this process after the delay; others overtake.
type RetryInline struct{ Delay time.Duration }

// PauseAndRetry tries again in this process after the delay, while the ordering
// unit waits, or with Whole the whole consumer. Without end it waits for an
// operator: the attempts are used up, and nothing may overtake.
type PauseAndRetry struct {
	Delay           time.Duration
	Whole, Operator bool
}

// PublishToRetryDestination moves the message to a stage of the consumer's own,
// which gives it back after the delay.
type PublishToRetryDestination struct {
	// Stage counts from 1; it is the one that waits at least Delay.
	Stage int
	Delay time.Duration
}

// ReturnToBroker gives the delivery back; the broker counts it and delays it.
type ReturnToBroker struct{ Delay time.Duration }

// Park hands the message to a parking place.
type Park struct {
	Failure Failure
	Place   Parking
}

// DeadLetterDecision hands the message to the dead-letter queue.
type DeadLetterDecision struct{ Failure Failure }

// RejectDecision discards the message.
type RejectDecision struct{ Failure Failure }

func (RetryInline) decision()               {}
func (PauseAndRetry) decision()             {}
func (PublishToRetryDestination) decision() {}
func (ReturnToBroker) decision()            {}
func (Park) decision()                      {}
func (DeadLetterDecision) decision()        {}
func (RejectDecision) decision()            {}

// Parking is a parking place. Zero is unset and refused.
type Parking uint8

// The values of Parking.
const (
	ParkingSchema       Parking = iota + 1 // what cannot be decoded, is foreign or of an unknown type
	ParkingSecurity                        // what smells of tampering
	ParkingManualReview                    // what needs a person
)

var parkingWords = words{"SCHEMA", "SECURITY", "MANUAL_REVIEW"}

// ParseParking reads the contract's word.
func ParseParking(s string) (Parking, error) {
	return parseWord[Parking]("parking place", parkingWords, s)
}

// String gives the contract's word, "UNSET" for zero.
func (p Parking) String() string { return parkingWords.text(uint8(p)) }

// MarshalText gives the contract's word; zero is an [ErrValidation].
func (p Parking) MarshalText() ([]byte, error) {
	return parkingWords.marshal("parking place", uint8(p))
}

// UnmarshalText reads the contract's word.
func (p *Parking) UnmarshalText(b []byte) (err error) {
	*p, err = ParseParking(string(b))
	return err
}
