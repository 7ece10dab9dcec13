package kafka

import (
	"fmt"
	"strconv"

	"github.com/backend-skeleton/relay/messaging"
)

// confirmation is the result of a stored message. offset is below zero where the
// broker did not say.
func confirmation(broker, topic string, partition int32, offset int64, level messaging.ConfirmationLevel, writes int) messaging.PublishResult {
	r := messaging.PublishResult{
		Completion: messaging.Confirmed,
		Evidence:   messaging.Evidence{QueuedLocally: true, Transmission: messaging.Transmitted, BrokerAccepted: true, Level: level},
		Routing:    messaging.RoutingNotApplicable,
		Attempts:   writes,
	}
	if offset >= 0 {
		b := make([]byte, 0, len("kafka:")+len(topic)+24)
		b = append(append(append(b, "kafka:"...), topic...), '/')
		b = append(strconv.AppendInt(b, int64(partition), 10), '/')
		b = strconv.AppendInt(b, offset, 10)
		r.Position = &messaging.BrokerPosition{Broker: broker, Text: string(b)}
	}
	return r
}

// rejection is the result of a message that is known not to be stored. answered
// tells whether a broker saw it.
func rejection(why *cause, answered bool, writes int) messaging.PublishResult {
	r := messaging.PublishResult{
		Completion: messaging.Rejected,
		Evidence:   messaging.Evidence{Transmission: messaging.NotTransmitted, Level: messaging.LevelNone},
		Routing:    messaging.RoutingNotApplicable,
		Attempts:   writes,
		Failure:    why.failure(),
	}
	if answered {
		r.Evidence.Transmission = messaging.Transmitted
	}
	return r
}

// doubt is the result of a message of which it cannot be told.
func doubt(why *cause, answered bool, writes int) messaging.PublishResult {
	r := rejection(why, answered, writes)
	r.Completion = messaging.Ambiguous
	r.Routing = messaging.RoutingUnknown
	if !answered {
		r.Evidence.Transmission = messaging.MayHaveBeenTransmitted
	}
	return r
}

// tooLargeCause names the sizes; limit 0 is not known.
func tooLargeCause(size, limit int) *cause {
	if limit <= 0 {
		return refused(messaging.CodeTooLarge, fmt.Sprintf("the record of %d bytes is over the broker's limit", size))
	}
	return refused(messaging.CodeTooLarge, fmt.Sprintf("the record of %d bytes is over the limit of %d bytes", size, limit))
}
