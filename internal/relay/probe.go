package relay

import (
	"errors"

	"github.com/backend-skeleton/relay/messaging"
	"github.com/backend-skeleton/relay/messaging/transport"
)

// probeReason says in a fixed word why a destination cannot be published to; "" where it can, as far as asking tells.
func probeReason(drifts []transport.Drift, err error) string {
	switch {
	case errors.Is(err, messaging.ErrAuthentication):
		return messaging.CodeAuthenticationFailed
	case errors.Is(err, messaging.ErrAuthorization):
		return messaging.CodeNotAuthorized
	case errors.Is(err, messaging.ErrBackpressure):
		return messaging.CodeBackpressure
	case errors.Is(err, messaging.ErrTopology), errors.Is(err, messaging.ErrConfiguration):
		return messaging.CodeBrokerConfiguration
	case err != nil:
		return messaging.CodeBrokerUnreachable
	}
	for _, d := range drifts {
		if d.Want == "present" && d.Have == "absent" {
			switch d.Field {
			case "topic":
				return messaging.CodeUnknownTopic
			case "exchange":
				return messaging.CodeUnknownExchange
			default:
				return messaging.CodeBrokerConfiguration
			}
		}
	}
	return ""
}
