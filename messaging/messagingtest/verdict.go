package messagingtest

import (
	"github.com/backend-skeleton/relay/messaging"
	"github.com/backend-skeleton/relay/messaging/transport"
)

// unsent refuses what never leaves this process.
func (c *call) unsent(m transport.Message) *messaging.PublishResult {
	b, local := c.p.b, messaging.NotTransmitted
	switch {
	case c.p.closed || c.p.a.closed:
		return c.refused(messaging.CategoryTransientInfrastructure, messaging.CodeClosed, "the adapter is closed", local)
	case c.ctx.Err() != nil:
		return c.refused(messaging.CategoryTransientInfrastructure, messaging.CodeNotSent, "the time was over before anything was written", local)
	case c.p.a.denied == BadCredential || c.p.a.denied == BadCertificate:
		return c.refused(messaging.CategoryAuthentication, messaging.CodeAuthenticationFailed, c.p.a.denied.text(), local)
	case m.Delay > 0 && !b.able.DelayedDelivery:
		return c.refused(messaging.CategoryValidation, messaging.CodeCapabilityUnavailable, "the place cannot hold messages back", local)
	case b.able.KeyedOrdering && c.missing[string(m.Key)]:
		return c.refused(messaging.CategoryTransientInfrastructure, messaging.CodePredecessorNotStored,
			"an earlier message of the key in the same call is not known to be stored", local)
	default:
		return nil
	}
}

// turnedAway is the answer of a broker that does not store the message.
func (c *call) turnedAway(p *place, m transport.Message) *messaging.PublishResult {
	b, name := c.p.b, string(c.to.Name)
	exists := b.settings.declared == nil || b.settings.declared[p.name] || c.to.Physical["reply-to"] != ""
	switch {
	case b.take(Down, name, p) != nil:
		return c.refused(messaging.CategoryTransientInfrastructure, messaging.CodeBrokerUnreachable, "the broker cannot be reached", messaging.NotTransmitted)
	case c.p.a.denied == NoRight:
		return c.refused(messaging.CategoryAuthorization, messaging.CodeNotAuthorized, NoRight.text(), messaging.Transmitted)
	case !exists && p.topic:
		return c.refused(messaging.CategoryConfiguration, messaging.CodeUnknownTopic, "the topic does not exist", messaging.NotTransmitted)
	case !exists || b.take(Return, name, p) != nil:
		r := c.refused(messaging.CategoryTransientInfrastructure, messaging.CodeUnroutable, "returned: no queue is bound for it", messaging.Transmitted)
		r.Routing = messaging.RoutingUnroutable
		return r
	case b.settings.maxBytes > 0 && len(m.Value) > b.settings.maxBytes:
		return c.refused(messaging.CategoryValidation, messaging.CodeTooLarge, "the payload is over the broker's limit", messaging.Transmitted)
	case b.take(Nack, name, p) != nil:
		return c.refused(messaging.CategoryTransientInfrastructure, messaging.CodeNacked, "refused by a queue", messaging.Transmitted)
	case b.take(Cut, name, p) != nil:
		r := c.refused(messaging.CategoryAmbiguous, messaging.CodeConnectionLost, "the connection ended before the answer", messaging.MayHaveBeenTransmitted)
		r.Completion = messaging.Ambiguous
		return r
	default:
		return nil
	}
}

// miss remembers that what follows the message under its key has no predecessor.
func (c *call) miss(m transport.Message) {
	if !m.NullKey && m.Key != nil {
		c.missing[string(m.Key)] = true
	}
}

func (c *call) refused(category messaging.Category, code, text string, sent messaging.Transmission) *messaging.PublishResult {
	return &messaging.PublishResult{
		Completion: messaging.Rejected, Routing: messaging.RoutingUnknown, Attempts: attempts(sent), Elapsed: c.p.b.settings.clock.Now().Sub(c.began),
		Evidence: messaging.Evidence{Transmission: sent, Level: messaging.LevelNone},
		Failure:  messaging.NewFailure(category, code, text),
	}
}

func attempts(sent messaging.Transmission) int {
	if sent == messaging.NotTransmitted {
		return 0
	}
	return 1
}

// stored is the answer to a message that the broker has. A broker that answers nothing proves nothing.
func (c *call) stored(p *place, at *item) messaging.PublishResult {
	able := c.p.b.able
	if !able.BrokerAcknowledgement {
		r := c.refused(messaging.CategoryAmbiguous, messaging.CodeUnknownOutcome, "the broker answers no publish", messaging.Transmitted)
		r.Completion = messaging.Ambiguous
		return *r
	}
	r := messaging.PublishResult{
		Completion: messaging.Confirmed, Routing: messaging.RoutingRouted, Position: at.position(), Attempts: 1,
		Elapsed:  c.p.b.settings.clock.Now().Sub(c.began),
		Evidence: messaging.Evidence{QueuedLocally: true, Transmission: messaging.Transmitted, BrokerAccepted: true, Level: messaging.LevelBrokerAck},
	}
	if able.ReplicationOrPersistenceEvidence {
		r.Evidence.Level = messaging.LevelReplicationOrPersistenceAck
	}
	if p.topic {
		r.Routing = messaging.RoutingNotApplicable
	}
	return r
}
