package publish

import "github.com/backend-skeleton/relay/messaging"

// State is how far one publish got. The public result shows completion and evidence alone; the last state before the end
// is the stage of logs, traces and hooks.
type State uint8

// The states of a publish, in the order of the way.
const (
	Created State = iota
	Validated
	Encoded
	QueuedLocally
	Transmitting
	BrokerAccepted
	Rejected
	Ambiguous
	Confirmed
	states // their number
)

var stateWords = [states]string{
	"CREATED", "VALIDATED", "ENCODED", "QUEUED_LOCALLY", "TRANSMITTING", "BROKER_ACCEPTED", "REJECTED", "AMBIGUOUS", "CONFIRMED",
}

// String gives the contract's word.
func (s State) String() string {
	if s >= states {
		return "INVALID"
	}
	return stateWords[s]
}

// transitions are the only steps there are. A message that never left can only be rejected; AMBIGUOUS begins with the
// transmission.
var transitions = [states][]State{
	Created:        {Validated, Rejected},
	Validated:      {Encoded, Rejected},
	Encoded:        {QueuedLocally, Rejected},
	QueuedLocally:  {Transmitting, Rejected},
	Transmitting:   {BrokerAccepted, Rejected, Ambiguous},
	BrokerAccepted: {Confirmed, Ambiguous},
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

// Final tells whether nothing follows.
func (s State) Final() bool { return s >= states || len(transitions[s]) == 0 }

// machine walks the states.
type machine struct {
	at    State
	stage State // the last state before the end
}

// to takes a step. One that does not exist is not taken and gives false: it is a mistake of this package.
func (m *machine) to(s State) bool {
	if !m.at.Next(s) {
		return false
	}
	if !s.Final() {
		m.stage = s
	}
	m.at = s
	return true
}

// steps are those that a verdict stands for.
func steps(r messaging.PublishResult) []State {
	switch {
	case r.Completion == messaging.Rejected:
		return stepsRejected
	case r.Completion == messaging.Confirmed:
		return stepsConfirmed
	case r.Evidence.BrokerAccepted:
		return stepsDoubted
	default:
		return stepsAmbiguous
	}
}

var (
	stepsRejected  = []State{Rejected}
	stepsConfirmed = []State{BrokerAccepted, Confirmed}
	stepsDoubted   = []State{BrokerAccepted, Ambiguous}
	stepsAmbiguous = []State{Ambiguous}
)
