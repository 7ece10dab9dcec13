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

// machine walks the states. A step that does not exist is not taken, and remembered: it is a mistake of this package.
type machine struct {
	at    State
	stage State // the last state before the end
	wrong bool
}

func (m *machine) to(s State) {
	if !m.at.Next(s) {
		m.wrong = true
		return
	}
	if !s.Final() {
		m.stage = s
	}
	m.at = s
}

// end takes the steps that a verdict stands for.
func (m *machine) end(r messaging.PublishResult) {
	switch r.Completion {
	case messaging.Rejected:
		m.to(Rejected)
	case messaging.Confirmed:
		m.to(BrokerAccepted)
		m.to(Confirmed)
	default:
		if r.Evidence.BrokerAccepted {
			m.to(BrokerAccepted)
		}
		m.to(Ambiguous)
	}
}
