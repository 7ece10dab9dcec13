package kafka

import (
	"context"

	"github.com/backend-skeleton/relay/messaging"
	"github.com/backend-skeleton/relay/messaging/transport"
)

// Capabilities asks the cluster what the endpoint's topic can do. Replication
// evidence is claimed only where two replicas and min.insync.replicas of two were
// seen; without the right to read the topic's settings it is not. A cluster that
// cannot be asked is an error of [messaging.ErrBrokerUnavailable],
// [messaging.ErrAuthentication], [messaging.ErrAuthorization] or
// [messaging.ErrTopology] (no such topic).
func (a *Adapter) Capabilities(ctx context.Context, e transport.Endpoint) (messaging.Capabilities, error) {
	s, err := settingsOf(e)
	if err != nil {
		return messaging.Capabilities{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, a.conf.ProbeTimeout)
	defer cancel()
	seen, c := a.describe(ctx, s.topic)
	if c != nil {
		return messaging.Capabilities{}, probeError("kafka capabilities", e.Name, c)
	}
	t := a.topic(s.topic)
	if t == nil {
		return messaging.Capabilities{}, probeError("kafka capabilities", e.Name, causeClosed)
	}
	if c := t.prove(ctx, seen); c != nil && c.category != messaging.CategoryAuthorization {
		return messaging.Capabilities{}, probeError("kafka capabilities", e.Name, c)
	}
	return messaging.Capabilities{
		BrokerAcknowledgement:            true,
		ReplicationOrPersistenceEvidence: t.level() == messaging.LevelReplicationOrPersistenceAck,
		OrderedStream:                    true,
		KeyedOrdering:                    true,
	}, nil
}

// Inspect asks the cluster's metadata, each time anew and within the probe timeout:
// an answer shows that the broker is there, a missing topic is a drift. It is the
// harmless question of a half-open breaker.
func (a *Adapter) Inspect(ctx context.Context, want []transport.Endpoint) ([]transport.Drift, error) {
	ctx, cancel := context.WithTimeout(ctx, a.conf.ProbeTimeout)
	defer cancel()
	var found []transport.Drift
	for _, e := range want {
		s, err := settingsOf(e)
		if err != nil {
			return nil, err
		}
		switch _, c := a.describe(ctx, s.topic); c {
		case nil, causeNoLeader:
			if t := a.topic(s.topic); t != nil {
				t.refresh() // what was believed about the topic may be out of date
			}
		case causeNoTopic:
			found = append(found, transport.Drift{Destination: e.Name, Field: "topic", Want: "present", Have: "absent"})
		default:
			return nil, probeError("kafka inspect", e.Name, c)
		}
	}
	return found, nil
}

func probeError(op string, d messaging.DestinationName, c *cause) error {
	kind := messaging.ErrBrokerUnavailable
	switch c.category {
	case messaging.CategoryAuthentication:
		kind = messaging.ErrAuthentication
	case messaging.CategoryAuthorization:
		kind = messaging.ErrAuthorization
	case messaging.CategoryConfiguration:
		kind = messaging.ErrConfiguration
		if c == causeNoTopic {
			kind = messaging.ErrTopology
		}
	}
	if c == causeClosed {
		kind = messaging.ErrClosed
	}
	return &messaging.Error{Op: op, Kind: kind, Destination: d, Failure: c.failure()}
}
