package config

import (
	"slices"
	"time"
)

// inlineMost is the longest wait of a retry that keeps its worker.
const inlineMost = Duration(5 * time.Second)

// neverRetried are the categories that are verdicts on the message itself: another attempt cannot change them.
var neverRetried = []Category{"DESERIALIZATION", "AUTHENTICATION", "AUTHORIZATION", "CONFIGURATION", "VALIDATION"}

func (k *checker) retry(at string, consumer Consumer, dest Destination) {
	r, place := consumer.Retry, at+".retry"
	if dest.Guarantees.Delivery == AtMostOnce {
		if k.set(place) {
			k.find(place, "an AT_MOST_ONCE destination has no retry: its messages are settled before they are handled")
		}
		return
	}
	if r.InitialDelay != nil && r.MaxDelay != nil && *r.InitialDelay > *r.MaxDelay {
		k.find(place+".initial-delay", "%s is more than max-delay (%s)", *r.InitialDelay, *r.MaxDelay)
	}
	k.retryOrder(place, r, dest)
	if r.Mode == RetryInline && (orDefault(r.InitialDelay, 0) > inlineMost || orDefault(r.MaxDelay, 0) > inlineMost) {
		k.find(place, "INLINE keeps its worker waiting, at most %s", inlineMost)
	}
	if r.Mode == RetryDestination && r.Jitter == JitterFull {
		k.find(place+".jitter", "a retry destination is a queue of equal waits; jitter is not possible there")
	}
	if r.Mode == RetryNone && orDefault(r.MaxAttempts, 1) > 1 {
		k.find(place+".max-attempts", "%d attempts need a mode; NONE calls the handler once", *r.MaxAttempts)
	}
	if r.Mode == BrokerDelayed {
		k.brokerDelayed(place, r, dest)
	}
	for i, c := range r.Retryable {
		switch {
		case slices.Contains(neverRetried, c):
			k.find(place+".retryable", "%s is a verdict on the message and never retried", c)
		case slices.Contains(r.NonRetryable, c):
			k.find(place+".retryable", "%s stands in non-retryable too", c)
		case slices.Contains(r.Retryable[:i], c):
			k.find(place+".retryable", "%s stands in the list twice", c)
		}
	}
}

// retryOrder holds the mode against the order that the destination promises.
func (k *checker) retryOrder(place string, r Retry, dest Destination) {
	reorders := r.Mode == RetryInline || r.Mode == RetryDestination || r.Mode == BrokerDelayed
	switch {
	case reorders && r.OrderingImpact == Preserve:
		k.find(place+".ordering-impact", "%s lets later messages overtake, so it cannot PRESERVE order", r.Mode)
	case reorders && dest.Guarantees.Ordering != OrderingNone:
		k.find(place+".mode", "%s breaks the %s order of the destination; use PAUSE_PARTITION or BLOCKING", r.Mode, dest.Guarantees.Ordering)
	}
}

func (k *checker) brokerDelayed(at string, r Retry, dest Destination) {
	if k.c.Messaging.Brokers[dest.Broker].Kind == Kafka {
		k.find(at+".mode", "Kafka cannot delay a delivery; use PAUSE_PARTITION or RETRY_DESTINATION")
	}
	if r.Multiplier != nil {
		k.find(at+".multiplier", "the broker's delay grows linearly; leave it out")
	}
	if r.Jitter == JitterFull {
		k.find(at+".jitter", "the broker's delay has no jitter; leave it out")
	}
}
