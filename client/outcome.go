package client

// Outcome says what became of a delivery. Zero is none: there was an error.
type Outcome uint8

// The outcomes of an inbox.
const (
	// First: the side effect ran and is committed.
	First Outcome = iota + 1
	// Duplicate: an earlier delivery of the message is committed; nothing ran. Acknowledge it.
	Duplicate
	// IntegrityFailure: an earlier message of the same id had another payload; nothing ran. Park it.
	IntegrityFailure
	// Busy: another try of the message was still open when the wait ended; nothing ran. Let it come again; it is no
	// failed attempt.
	Busy
)

// String gives the contract's word, "UNSET" for zero.
func (o Outcome) String() string {
	switch o {
	case First:
		return "FIRST"
	case Duplicate:
		return "DUPLICATE"
	case IntegrityFailure:
		return "INTEGRITY_FAILURE"
	case Busy:
		return "BUSY"
	default:
		return "UNSET"
	}
}
