package publish

import (
	"testing"

	"github.com/backend-skeleton/relay/messaging"
)

// The whole table: a step that is not named here does not exist.
func TestTransitions(t *testing.T) {
	t.Parallel()
	allowed := map[[2]State]bool{
		{Created, Validated}: true, {Created, Rejected}: true,
		{Validated, Encoded}: true, {Validated, Rejected}: true,
		{Encoded, QueuedLocally}: true, {Encoded, Rejected}: true,
		{QueuedLocally, Transmitting}: true, {QueuedLocally, Rejected}: true,
		{Transmitting, BrokerAccepted}: true, {Transmitting, Rejected}: true, {Transmitting, Ambiguous}: true,
		{BrokerAccepted, Confirmed}: true, {BrokerAccepted, Ambiguous}: true,
	}
	for from := Created; from <= states; from++ {
		for to := Created; to <= states; to++ {
			if got := from.Next(to); got != allowed[[2]State{from, to}] {
				t.Errorf("%v -> %v: %v", from, to, got)
			}
			m := machine{at: from}
			if took := m.to(to); took != from.Next(to) || took && m.at != to || !took && m.at != from {
				t.Errorf("%v -> %v: the machine is at %v, took the step: %v", from, to, m.at, took)
			}
		}
	}
	for s, final := range map[State]bool{Created: false, Transmitting: false, BrokerAccepted: false, Rejected: true, Ambiguous: true, Confirmed: true} {
		if s.Final() != final {
			t.Errorf("%v is final: %v", s, s.Final())
		}
	}
}

func TestTheEndKeepsTheStage(t *testing.T) {
	t.Parallel()
	accepted := messaging.Evidence{BrokerAccepted: true}
	for _, c := range []struct {
		at    State
		r     messaging.PublishResult
		stage State
		end   State
	}{
		{Created, messaging.PublishResult{Completion: messaging.Rejected}, Created, Rejected},
		{Validated, messaging.PublishResult{Completion: messaging.Rejected}, Validated, Rejected},
		{Transmitting, messaging.PublishResult{Completion: messaging.Rejected}, Transmitting, Rejected},
		{Transmitting, messaging.PublishResult{Completion: messaging.Ambiguous}, Transmitting, Ambiguous},
		{Transmitting, messaging.PublishResult{Completion: messaging.Ambiguous, Evidence: accepted}, BrokerAccepted, Ambiguous},
		{Transmitting, messaging.PublishResult{Completion: messaging.Confirmed, Evidence: accepted}, BrokerAccepted, Confirmed},
	} {
		m := machine{at: c.at, stage: c.at}
		for _, s := range steps(c.r) {
			if !m.to(s) {
				t.Errorf("%v with %v: there is no step to %v", c.at, c.r.Completion, s)
			}
		}
		if m.stage != c.stage || m.at != c.end {
			t.Errorf("%v with %v: at %v, stage %v", c.at, c.r.Completion, m.at, m.stage)
		}
	}
}
