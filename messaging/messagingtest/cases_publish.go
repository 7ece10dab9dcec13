package messagingtest

import (
	"context"
	"time"

	"github.com/backend-skeleton/relay/messaging"
)

// publishingCases are about the publishing half alone.
func publishingCases() []contractCase {
	return []contractCase{
		{"normal publish", []step{
			{"confirmed and stored as it was", "BrokerAcknowledgement", storedAsItWas},
			{"without acknowledgement nothing is confirmed", "!BrokerAcknowledgement", nothingIsConfirmed},
		}},
		{"reject", []step{
			{"refused by the broker", "BrokerAcknowledgement", refusedByBroker},
			{"returned as unroutable", "BrokerAcknowledgement", returned},
			{"no such place", "BrokerAcknowledgement", noSuchPlace},
		}},
		{"ambiguity", []step{
			{"no answer", "BrokerAcknowledgement", noAnswer},
			{"cut in the middle", "", cutInTheMiddle},
			{"late answer", "BrokerAcknowledgement", lateAnswer},
			{"nothing was sent", "", nothingSent},
			{"back-pressure", "", backPressure},
		}},
		{"same-id retry", []step{
			{"stored under the same id", "BrokerAcknowledgement", sameIDRetry},
			{"stored once", "BrokerAcknowledgement DeduplicatedPublish", storedOnce},
		}},
	}
}

func storedAsItWas(k *kit) {
	source := k.place("source")
	level := messaging.LevelBrokerAck
	if k.able().ReplicationOrPersistenceEvidence {
		level = messaging.LevelReplicationOrPersistenceAck
	}
	ms := append(k.messages("", 0, 2), k.messages("key", 2, 1)...)
	for i, r := range k.publish(source, ms...) {
		if r.Completion != messaging.Confirmed || r.Evidence.Transmission != messaging.Transmitted || !r.Evidence.BrokerAccepted || r.Evidence.Level != level {
			k.Errorf("message %d: %s, want it confirmed at %v", i, told(r), level)
		}
		if r.Attempts < 1 || r.Routing == messaging.RoutingUnroutable {
			k.Errorf("message %d: %d attempts, routing %v", i, r.Attempts, r.Routing)
		}
	}
	k.eventually("all are stored", func() bool { return len(k.stored(source)) == len(ms) })
	for i, m := range ms {
		got := find(k.stored(source), m)
		if len(got) != 1 {
			k.Errorf("message %d is stored %d times", i, len(got))
		} else if d := same(m, got[0]); d != "" {
			k.Errorf("message %d: %s", i, d)
		}
	}
}

func nothingIsConfirmed(k *kit) {
	if r := k.publish(k.place("source"), k.messages("", 0, 1)...)[0]; r.Completion != messaging.Ambiguous {
		k.Errorf("a broker that answers nothing: %s", told(r))
	}
}

func refusedByBroker(k *kit) {
	source := k.warm("source")
	undo := k.inject(Fault{Kind: Nack, Destination: string(source.Name), Count: 1})
	ms := k.messages("", 0, 1)
	if r := k.publish(source, ms...)[0]; r.Completion != messaging.Rejected {
		k.Errorf("refused by the broker: %s", told(r))
	}
	undo()
	if got := k.stored(source); len(got) != 0 {
		k.Errorf("%d stored, though it was refused", len(got))
	}
	k.confirmed(source, ms...)
}

func returned(k *kit) {
	source := k.warm("source")
	k.inject(Fault{Kind: Return, Destination: string(source.Name), Count: 1})
	r := k.publish(source, k.messages("", 0, 1)...)[0]
	if r.Completion != messaging.Rejected || r.Routing != messaging.RoutingUnroutable {
		k.Errorf("a returned message: %s, routing %v", told(r), r.Routing)
	}
}

func noSuchPlace(k *kit) {
	if k.s.Nowhere == nil {
		k.unproved("the set-up knows no place that does not exist")
	}
	source := k.place("source")
	if r := k.publish(k.s.Nowhere(), k.messages("", 0, 1)...)[0]; r.Completion != messaging.Rejected {
		k.Errorf("to a place that does not exist: %s", told(r))
	}
	k.confirmed(source, k.messages("", 1, 1)...) // and nobody else suffers
}

func noAnswer(k *kit) {
	source := k.warm("source")
	k.inject(Fault{Kind: DropAck, Destination: string(source.Name), Count: 1})
	ctx, cancel := context.WithTimeout(context.Background(), k.brief())
	defer cancel()
	if r := k.send(ctx, source, k.messages("", 0, 1)...).wait()[0]; r.Completion != messaging.Ambiguous {
		k.Errorf("without an answer: %s", told(r))
	}
}

// brief is the time of a publish that must not be answered.
func (k *kit) brief() time.Duration { return 4 * k.s.Quiet }

func cutInTheMiddle(k *kit) {
	source := k.warm("source")
	k.inject(Fault{Kind: Cut, Destination: string(source.Name), Count: 1})
	ctx, cancel := context.WithTimeout(context.Background(), k.brief())
	defer cancel()
	r := k.send(ctx, source, k.messages("", 0, 1)...).wait()[0]
	if r.Completion != messaging.Ambiguous || r.Evidence.Transmission == messaging.NotTransmitted {
		k.Errorf("cut after bytes have left: %s", told(r))
	}
}

func lateAnswer(k *kit) {
	source := k.warm("source")
	undo := k.inject(Fault{Kind: LateAck, Destination: string(source.Name), Count: 1})
	ctx, cancel := context.WithTimeout(context.Background(), k.brief())
	defer cancel()
	a := k.send(ctx, source, k.messages("", 0, 1)...)
	k.never("confirmed before the broker answered", func() bool { return a.has(messaging.Confirmed) })
	undo()
	if r := a.wait()[0]; r.Completion == messaging.Rejected {
		k.Errorf("a stored message, answered late: %s", told(r))
	}
}

func nothingSent(k *kit) {
	source := k.place("source")
	over, cancel := context.WithCancel(context.Background())
	cancel()
	r := k.send(over, source, k.messages("", 0, 1)...).wait()[0]
	if r.Completion != messaging.Rejected || r.Evidence.Transmission != messaging.NotTransmitted {
		k.Errorf("the context had ended before: %s", told(r))
	}
	k.never("stored, though nothing was sent", func() bool { return len(k.stored(source)) > 0 })
}

func backPressure(k *kit) {
	source := k.warm("source")
	undo := k.inject(Fault{Kind: Block, Destination: string(source.Name)})
	ctx, cancel := context.WithTimeout(context.Background(), k.brief())
	defer cancel()
	r := k.send(ctx, source, k.messages("", 0, 1)...).wait()[0]
	if r.Completion != messaging.Rejected || r.Evidence.Transmission != messaging.NotTransmitted {
		k.Errorf("blocked until the context ended: %s", told(r))
	}
	undo()
	k.never("stored, though nothing was sent", func() bool { return len(k.stored(source)) > 0 })
	k.given(source, k.messages("", 1, 1)...)
}

func sameIDRetry(k *kit) {
	source := k.warm("source")
	m := k.messages("key", 0, 1)
	undo := k.inject(Fault{Kind: DropAck, Destination: string(source.Name), Count: 1})
	ctx, cancel := context.WithTimeout(context.Background(), k.brief())
	defer cancel()
	k.send(ctx, source, m...).wait()
	undo()
	k.confirmed(source, m...)
	k.confirmed(source, m...)
	k.eventually("it is stored", func() bool { return len(k.stored(source)) > 0 })
	for _, got := range k.stored(source) {
		if d := same(m[0], got); d != "" {
			k.Errorf("a copy: %s", d)
		}
	}
}

func storedOnce(k *kit) {
	source := k.place("source")
	m := k.messages("key", 0, 1)
	k.confirmed(source, m...)
	k.confirmed(source, m...)
	if n := len(k.stored(source)); n != 1 {
		k.Errorf("stored %d times by a broker that drops copies", n)
	}
}
