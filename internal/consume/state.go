package consume

// State is how far one delivery got.
type State uint8

// The states of a delivery, in the order of the way.
const (
	Received State = iota
	Decoding
	SchemaParking
	Processing
	InboxReserved
	BusinessTransactionCommitted
	RetryPending
	DeadLetterPending
	Rejected
	HandlerSucceeded
	SettlementSending
	Settled
	SettlementUnknown
	states // their number
)

var stateWords = [states]string{
	"RECEIVED", "DECODING", "SCHEMA_PARKING", "PROCESSING", "INBOX_RESERVED", "BUSINESS_TRANSACTION_COMMITTED", "RETRY_PENDING",
	"DEAD_LETTER_PENDING", "REJECTED", "HANDLER_SUCCEEDED", "SETTLEMENT_SENDING", "SETTLED", "SETTLEMENT_UNKNOWN",
}

// String gives the contract's word.
func (s State) String() string {
	if s >= states {
		return "INVALID"
	}
	return stateWords[s]
}

// transitions are the only steps there are. A step out of SETTLED exists where a delivery is settled before its handler
// starts, AT_MOST_ONCE; there the verdict ends it. A delivery that is left unsettled ends wherever it stands.
var transitions = [states][]State{
	Received:                     {Decoding},
	Decoding:                     {Processing, SchemaParking, DeadLetterPending, RetryPending, Rejected, SettlementSending},
	Processing:                   {InboxReserved, HandlerSucceeded, RetryPending, DeadLetterPending, SchemaParking, Rejected},
	InboxReserved:                {BusinessTransactionCommitted},
	BusinessTransactionCommitted: {HandlerSucceeded},
	RetryPending:                 {Decoding, Processing, SettlementSending},
	SchemaParking:                {SettlementSending},
	DeadLetterPending:            {SettlementSending},
	Rejected:                     {SettlementSending},
	HandlerSucceeded:             {SettlementSending},
	SettlementSending:            {Settled, SettlementUnknown},
	Settled:                      {Processing},
}

// Next tells whether a step exists.
func (s State) Next(to State) bool {
	if s >= states {
		return false
	}
	for _, t := range transitions[s] {
		if t == to {
			return true
		}
	}
	return false
}
