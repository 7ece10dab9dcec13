package messaging

// SettlementResult is what is known about the settlement of a delivery.
type SettlementResult struct {
	Status  SettlementStatus
	Proof   SettlementProof
	Failure *Failure
}

// SettlementStatus tells whether a delivery was settled. Zero is unset and refused.
type SettlementStatus uint8

// The values of SettlementStatus.
const (
	Settled SettlementStatus = iota + 1
	SettlementRejected
	SettlementUnknown // redelivery is possible; never counted as success
)

var settlementWords = words{"SETTLED", "REJECTED", "UNKNOWN"}

// ParseSettlementStatus reads the contract's word.
func ParseSettlementStatus(s string) (SettlementStatus, error) {
	return parseWord[SettlementStatus]("settlement status", settlementWords, s)
}

// String gives the contract's word, "UNSET" for zero.
func (s SettlementStatus) String() string { return settlementWords.text(uint8(s)) }

// MarshalText gives the contract's word; zero is an [ErrValidation].
func (s SettlementStatus) MarshalText() ([]byte, error) {
	return settlementWords.marshal("settlement status", uint8(s))
}

// UnmarshalText reads the contract's word.
func (s *SettlementStatus) UnmarshalText(b []byte) (err error) {
	*s, err = ParseSettlementStatus(string(b))
	return err
}

// SettlementProof is what a settlement rests on. Zero is unset and refused.
type SettlementProof uint8

// The values of SettlementProof.
const (
	ProofNone        SettlementProof = iota + 1
	ProofWritten                     // written to the channel: AMQP never answers an ack
	ProofBrokerAcked                 // the broker answered, as to a Kafka commit
)

var proofWords = words{"NONE", "WRITTEN", "BROKER_ACKED"}

// ParseSettlementProof reads the contract's word.
func ParseSettlementProof(s string) (SettlementProof, error) {
	return parseWord[SettlementProof]("settlement proof", proofWords, s)
}

// String gives the contract's word, "UNSET" for zero.
func (s SettlementProof) String() string { return proofWords.text(uint8(s)) }

// MarshalText gives the contract's word; zero is an [ErrValidation].
func (s SettlementProof) MarshalText() ([]byte, error) {
	return proofWords.marshal("settlement proof", uint8(s))
}

// UnmarshalText reads the contract's word.
func (s *SettlementProof) UnmarshalText(b []byte) (err error) {
	*s, err = ParseSettlementProof(string(b))
	return err
}
