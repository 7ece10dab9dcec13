package consume

import (
	"slices"
	"strings"
	"time"

	"github.com/backend-skeleton/relay/messaging"
)

// RetryContext is all that a decision depends on.
type RetryContext struct {
	Policy messaging.RetryPolicy
	Caps   messaging.Capabilities
	// Ordered says that later messages of the ordering unit must not overtake.
	Ordered bool
	// AtMostOnce says that the delivery is settled already.
	AtMostOnce bool
	// Block says that a message whose attempts are used up waits for an operator.
	Block bool
	// ReviewDoubtful parks for review what is used up and may have had an effect.
	ReviewDoubtful bool

	Meta    messaging.DeliveryMetadata
	Verdict messaging.Verdict // never SUCCESS; zero is a failed attempt
	Failure messaging.Failure
	// Wanted is the least delay that a manual handler asked for.
	Wanted time.Duration
	// SideEffectPossible says that this attempt or an earlier one may have committed something.
	SideEffectPossible bool
	// Free says that the attempt does not count: nothing of the message was tried, what it needs is out of order.
	Free bool
	// Outage counts free attempts so far.
	Outage int
	// Draining says that the shutdown began.
	Draining bool
	// Random spreads the delay, within (0, 1]; 0 is 1.
	Random float64
}

// Decide says what becomes of a delivery that did not succeed. It is pure, and the only place that knows the rules. Nil
// leaves the delivery unsettled: a failure after the shutdown began proves nothing about the message.
func Decide(c RetryContext) messaging.Decision {
	f := c.Failure
	switch {
	case c.Draining:
		return nil
	case c.AtMostOnce:
		return messaging.RejectDecision{Failure: f}
	case c.Free:
		return messaging.PauseAndRetry{Delay: Delay(outagePolicy, c.Outage+1, c.Random)}
	}
	if c.Verdict == messaging.VerdictReject {
		f = *messaging.NewFailure(messaging.CategoryPermanentBusiness, messaging.CodeRejectNotAllowed, "only an at-most-once destination lets a handler discard")
	}
	if place, ok := parkingOf(f); ok {
		return messaging.Park{Failure: f, Place: place}
	}
	if !mayPass(c.Policy, c.Verdict, f.Category) {
		return messaging.DeadLetterDecision{Failure: f}
	}
	switch {
	case c.Meta.Attempt < max(c.Policy.MaxAttempts, 1):
		if d := again(c); d != nil {
			return d
		}
	case c.Block:
		return messaging.PauseAndRetry{Operator: true}
	}
	if c.ReviewDoubtful && c.SideEffectPossible {
		return messaging.Park{Failure: f, Place: messaging.ParkingManualReview}
	}
	return messaging.DeadLetterDecision{Failure: f}
}

// again waits for the next attempt in the policy's mode. Where order is kept every mode that lets others overtake becomes
// one that does not.
func again(c RetryContext) messaging.Decision {
	delay := max(Delay(c.Policy, c.Meta.Attempt, c.Random), c.Wanted)
	mode := c.Policy.Mode
	if c.Ordered && mode != messaging.ModeBlocking && mode != messaging.ModeNone {
		mode = messaging.ModePausePartition
	}
	switch mode {
	case messaging.ModeInline:
		return messaging.RetryInline{Delay: min(delay, MaxInline)}
	case messaging.ModeBlocking:
		return messaging.PauseAndRetry{Delay: delay, Whole: true}
	case messaging.ModePausePartition:
		return messaging.PauseAndRetry{Delay: delay}
	case messaging.ModeRetryDestination:
		stage, wait := stageOf(c.Policy, max(delay, plain(c.Policy, c.Meta.Attempt)))
		return messaging.PublishToRetryDestination{Stage: stage, Delay: wait}
	case messaging.ModeBrokerDelayed:
		return messaging.ReturnToBroker{Delay: delay}
	default:
		return nil
	}
}

// mayPass tells whether another attempt could end otherwise. The categories below say that the message itself is refused:
// no policy makes them pass.
func mayPass(p messaging.RetryPolicy, v messaging.Verdict, c messaging.Category) bool {
	if v != messaging.VerdictRetry && v != 0 {
		return false
	}
	switch c {
	case messaging.CategoryDeserialization, messaging.CategoryAuthentication, messaging.CategoryAuthorization,
		messaging.CategoryConfiguration, messaging.CategoryValidation, messaging.CategoryPermanentBusiness:
		return false
	default:
	}
	retryable := p.Retryable
	if retryable == nil {
		retryable = []messaging.Category{messaging.CategoryTransientInfrastructure, messaging.CategoryThrottled, messaging.CategoryProcessingTransient}
	}
	return slices.Contains(retryable, c) && !slices.Contains(p.NonRetryable, c)
}

// parkingOf finds the place of what never was a message of the business, by category and code; the first match counts.
func parkingOf(f messaging.Failure) (messaging.Parking, bool) {
	is := func(codes ...string) bool { return slices.Contains(codes, f.Code) }
	switch {
	case f.Category == messaging.CategoryDeserialization, strings.HasPrefix(f.Code, "SCHEMA_"), strings.HasPrefix(f.Code, "FOREIGN_"),
		is(messaging.CodeUnknownType, messaging.CodeUnhandledType):
		return messaging.ParkingSchema, true
	case is(messaging.CodeIntegrityMismatch, messaging.CodeChecksumMismatch), strings.HasPrefix(f.Code, "TENANT_"),
		f.Category == messaging.CategoryAuthentication, f.Category == messaging.CategoryAuthorization:
		return messaging.ParkingSecurity, true
	case is(messaging.CodeObjectGone):
		return messaging.ParkingManualReview, true
	default:
		return 0, false
	}
}
