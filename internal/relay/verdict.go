package relay

import (
	"time"

	"github.com/backend-skeleton/relay/internal/outbox"
	"github.com/backend-skeleton/relay/messaging"
)

// scope of a breaker that a result concerns.
type scope uint8

const (
	nobody           scope = iota
	destinationCount       // after so many in a row the destination's breaker opens
	destinationOpen        // the destination's breaker opens at once
	destinationStuck       // it counts too, and says nothing about the broker
	brokerCount
	brokerOpen
)

// disposition is what becomes of a row after a publish, and who else is concerned.
type disposition struct {
	// asItWas: nothing is written, the row keeps its status.
	asItWas   bool
	state     outbox.State
	attempt   int32
	ambiguous int32
	delay     time.Duration
	skip      bool
	breaker   scope
}

// passed: what stands behind the row in its key need not wait for it any more.
func (d disposition) passed() bool {
	return d.state == outbox.Published || (d.state == outbox.Parked && d.skip)
}

// dispose decides by the cause of the result. It is the only place that knows the rules.
func (d *Destination) dispose(r *outbox.Row, res messaging.PublishResult) disposition {
	switch res.Completion {
	case messaging.Confirmed:
		return disposition{state: outbox.Published, attempt: 1}
	case messaging.Rejected:
		return d.disposeRejected(r, res)
	default:
		out := d.again(r, outbox.Ambiguous)
		out.ambiguous, out.breaker = 1, destinationCount
		return out
	}
}

func (d *Destination) disposeRejected(r *outbox.Row, res messaging.PublishResult) disposition {
	f := res.Failure
	if f == nil {
		f = messaging.NewFailure(messaging.CategoryTransientInfrastructure, messaging.CodeUnknownOutcome, "")
	}
	switch f.Category {
	case messaging.CategoryValidation, messaging.CategoryPermanentBusiness, messaging.CategoryPoisonMessage, messaging.CategoryDeserialization:
		return d.park()
	case messaging.CategoryAuthorization, messaging.CategoryConfiguration:
		return disposition{asItWas: true, breaker: destinationOpen}
	case messaging.CategoryAuthentication:
		return disposition{asItWas: true, breaker: brokerOpen}
	}
	switch f.Code {
	case messaging.CodeBrokerUnreachable, messaging.CodeBackpressure:
		return disposition{asItWas: true, breaker: brokerOpen}
	case messaging.CodeNotSent: // mostly behind others of the same destination that got no answer
		return disposition{asItWas: true, breaker: destinationStuck}
	case messaging.CodePredecessorNotStored, messaging.CodeProducerSessionLost, messaging.CodeClosed, messaging.CodeLeaseEnded:
		return disposition{asItWas: true}
	}
	if res.Evidence.Transmission == messaging.NotTransmitted {
		return disposition{asItWas: true, breaker: brokerCount}
	}
	out := d.again(r, outbox.RetryableFailure)
	out.breaker = destinationCount
	if f.Code == messaging.CodeUnroutable && d.OwnRoutingKey {
		out.breaker = nobody
	}
	return out
}

// again spends an attempt; a row whose attempts are used up is parked with this last outcome. A row that may have been
// delivered before never looks as if it had not.
func (d *Destination) again(r *outbox.Row, state outbox.State) disposition {
	attempts := r.Attempts + 1
	if r.Attempts >= int32(d.Attempts)-1 {
		return d.park()
	}
	if r.AmbiguousAttempts > 0 {
		state = outbox.Ambiguous
	}
	return disposition{state: state, attempt: 1, delay: d.Backoff.after(attempts)}
}

func (d *Destination) park() disposition {
	return disposition{state: outbox.Parked, attempt: 1, delay: -1, skip: !d.Block}
}
