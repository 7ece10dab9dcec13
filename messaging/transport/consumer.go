package transport

import (
	"context"
	"time"

	"github.com/backend-skeleton/relay/messaging"
)

// Subscription is what a consumer reads.
type Subscription struct {
	Endpoint Endpoint
	Consumer messaging.ConsumerName
	Prefetch int
	// MaxBufferedBytes bounds what is fetched and not yet settled.
	MaxBufferedBytes int64
	// Strict asks for one delivery in flight per unit.
	Strict bool
	// Extra are the consumer's own retry stages.
	Extra []Endpoint
}

// Sink is the consuming runtime as an adapter sees it. Its calls are serial per
// unit.
type Sink interface {
	Assigned(u []Unit)
	// Deliver never blocks: the runtime pauses the unit instead, and an overshoot
	// of one poll is allowed.
	Deliver(d Delivery)
	// Revoked returns when no handler of u runs or ctx ends; settle before it
	// returns, nothing after.
	Revoked(ctx context.Context, u []Unit)
	// Lost says that the units are gone already: settle nothing.
	Lost(u []Unit)
}

// Unit is a partition or queue in one assignment or on one channel.
type Unit struct {
	Name  string
	Epoch uint64
}

// Delivery is one delivery as the broker gave it.
type Delivery struct {
	Message
	Unit        Unit
	Position    messaging.BrokerPosition
	Redelivered bool
	// Failed counts failed deliveries where the broker counts them, else 0.
	Failed     int
	ReceivedAt time.Time
	Tag        any
}

// Consumer is a running subscription.
type Consumer interface {
	// Settle answers through done. A delivery of a dead epoch is UNKNOWN and
	// nothing is sent for it.
	Settle(d Delivery, s Settlement, done func(messaging.SettlementResult))
	// Pause stops deliveries of the units; the pause ends with their epoch.
	Pause(u ...Unit)
	Resume(u ...Unit)
	// Stop ends new deliveries; Settle still works.
	Stop(ctx context.Context) error
	// Close leaves unsettled what is unsettled.
	Close(ctx context.Context) error
}

// Settlement is what to do with a delivery.
type Settlement struct {
	Verb  Verb
	Delay time.Duration
}

// Verb is the verb of a settlement. Zero is unset and refused.
type Verb uint8

// The verbs.
const (
	Ack     Verb = iota + 1
	Fail         // counted and delayed by the broker
	Release      // given back without being counted, at a stop or after browsing
	Discard
)

// String gives the contract's word, "UNSET" for zero.
func (v Verb) String() string {
	switch v {
	case 0:
		return "UNSET"
	case Ack:
		return "ACK"
	case Fail:
		return "FAIL"
	case Release:
		return "RELEASE"
	case Discard:
		return "DISCARD"
	default:
		return "INVALID"
	}
}
