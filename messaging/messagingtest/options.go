package messagingtest

import (
	"time"

	"github.com/backend-skeleton/relay/messaging"
)

// Everything is every capability.
var Everything = messaging.Capabilities{
	BrokerAcknowledgement: true, ReplicationOrPersistenceEvidence: true, PerMessageSettlement: true, BatchSettlement: true,
	OrderedStream: true, KeyedOrdering: true, Replay: true, DelayedDelivery: true, BrokerTransaction: true,
	DeduplicatedPublish: true, NativeDeadLetter: true, TopologyManagement: true,
}

// Option changes a [Broker] that is being made.
type Option func(*settings)

type settings struct {
	clock      Clock
	partitions int
	maxBytes   int
	revokeWait time.Duration
	declared   map[string]bool // nil: every place is there
	limits     map[string]deliveryLimit
	proof      messaging.SettlementProof
}

type deliveryLimit struct {
	limit      int
	deadLetter string
}

func defaults() settings {
	return settings{clock: wallClock{}, partitions: 3, revokeWait: 30 * time.Second, limits: map[string]deliveryLimit{}}
}

// WithClock gives the broker a time of its own. The default is the machine's.
func WithClock(c Clock) Option { return func(s *settings) { s.clock = c } }

// WithPartitions sets how many partitions a topic has, at least 1. The default is 3.
func WithPartitions(n int) Option { return func(s *settings) { s.partitions = max(1, n) } }

// WithMaxBytes refuses messages whose payload is larger. The default is no limit.
func WithMaxBytes(n int) Option { return func(s *settings) { s.maxBytes = n } }

// WithRevokeWait bounds how long a consumer may take to give units back. The
// default is 30 s.
func WithRevokeWait(d time.Duration) Option { return func(s *settings) { s.revokeWait = d } }

// WithPlaces names the only places that exist; a publish to another is refused.
// Without it every place is there as soon as somebody names it.
func WithPlaces(names ...string) Option {
	return func(s *settings) {
		if s.declared == nil {
			s.declared = map[string]bool{}
		}
		for _, n := range names {
			s.declared[n] = true
		}
	}
}

// WithDeliveryLimit makes the broker itself move a message of the place to
// deadLetter once it has failed more often than limit. It needs the capability
// NativeDeadLetter.
func WithDeliveryLimit(place string, limit int, deadLetter string) Option {
	return func(s *settings) { s.limits[place] = deliveryLimit{limit, deadLetter} }
}

// WithSettlementProof sets what a settlement rests on. The default is
// BROKER_ACKED for topics and WRITTEN for queues.
func WithSettlementProof(p messaging.SettlementProof) Option {
	return func(s *settings) { s.proof = p }
}
