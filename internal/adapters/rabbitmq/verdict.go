package rabbitmq

import (
	"fmt"
	"regexp"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/backend-skeleton/relay/messaging"
)

// Verdicts on a message of which nothing was written. They are shared and never
// changed.
var (
	failClosed       = messaging.NewFailure(messaging.CategoryTransientInfrastructure, messaging.CodeClosed, "the publisher is closed")
	failNotSent      = messaging.NewFailure(messaging.CategoryTransientInfrastructure, messaging.CodeNotSent, "the time was over before anything was written")
	failGone         = messaging.NewFailure(messaging.CategoryTransientInfrastructure, messaging.CodeNotSent, "the channel was closed before anything was written")
	failBehind       = messaging.NewFailure(messaging.CategoryTransientInfrastructure, messaging.CodeNotSent, "messages before it on its channel got no answer")
	failUnreachable  = messaging.NewFailure(messaging.CategoryTransientInfrastructure, messaging.CodeBrokerUnreachable, "no connection to the broker")
	failPredecessor  = messaging.NewFailure(messaging.CategoryTransientInfrastructure, messaging.CodePredecessorNotStored, "an earlier message of the key in the same call is not confirmed")
	failBlocked      = messaging.NewFailure(messaging.CategoryThrottled, messaging.CodeBackpressure, "the broker blocks the connection")
	failWindow       = messaging.NewFailure(messaging.CategoryThrottled, messaging.CodeBackpressure, "too many messages wait for their answer")
	failBuffer       = messaging.NewFailure(messaging.CategoryThrottled, messaging.CodeBackpressure, "too many bytes wait for the socket")
	failExchange     = messaging.NewFailure(messaging.CategoryConfiguration, messaging.CodeUnknownExchange, "the exchange does not exist")
	failNotAllowed   = messaging.NewFailure(messaging.CategoryAuthorization, messaging.CodeNotAuthorized, "the broker refuses access to the exchange")
	failVHostRefused = messaging.NewFailure(messaging.CategoryAuthorization, messaging.CodeNotAuthorized, "the broker refuses access to the virtual host")
	failVHostAbsent  = messaging.NewFailure(messaging.CategoryConfiguration, messaging.CodeBrokerConfiguration, "the virtual host does not exist")
	failMechanism    = messaging.NewFailure(messaging.CategoryConfiguration, messaging.CodeBrokerConfiguration, "the broker does not offer the authentication mechanism")
	failNoTLS        = messaging.NewFailure(messaging.CategoryConfiguration, messaging.CodeBrokerConfiguration, "the broker does not answer with TLS")
	failCredentials  = messaging.NewFailure(messaging.CategoryAuthentication, messaging.CodeAuthenticationFailed, "the broker refuses user name or password")
	failSecret       = messaging.NewFailure(messaging.CategoryAuthentication, messaging.CodeAuthenticationFailed, "the password cannot be read")
	failCertificate  = messaging.NewFailure(messaging.CategoryAuthentication, messaging.CodeAuthenticationFailed, "the broker's or the client's certificate is refused")
)

// Verdicts on a message that was written.
var (
	failUnroutable     = messaging.NewFailure(messaging.CategoryTransientInfrastructure, messaging.CodeUnroutable, "returned: no queue is bound for the routing key")
	failNacked         = messaging.NewFailure(messaging.CategoryTransientInfrastructure, messaging.CodeNacked, "refused by a queue")
	failRefused        = messaging.NewFailure(messaging.CategoryValidation, messaging.CodeRecordRefused, "the broker refuses the message for its form")
	failTimeout        = messaging.NewFailure(messaging.CategoryAmbiguous, messaging.CodeConfirmTimeout, "no answer in time")
	failConnectionLost = messaging.NewFailure(messaging.CategoryAmbiguous, messaging.CodeConnectionLost, "the connection ended before the answer")
	failChannelClosed  = messaging.NewFailure(messaging.CategoryAmbiguous, messaging.CodeChannelClosed, "the channel was closed before the answer")
)

// notSent is the verdict on a message of which nothing was written.
func notSent(f *messaging.Failure) messaging.PublishResult {
	return messaging.PublishResult{
		Completion: messaging.Rejected,
		Evidence:   messaging.Evidence{Transmission: messaging.NotTransmitted, Level: messaging.LevelNone},
		Routing:    messaging.RoutingUnknown,
		Failure:    f,
	}
}

// refused is the verdict on a message that the broker received and does not have.
func refused(f *messaging.Failure) messaging.PublishResult {
	routing := messaging.RoutingUnknown
	if f.Code == messaging.CodeUnroutable {
		routing = messaging.RoutingUnroutable
	}
	return messaging.PublishResult{
		Completion: messaging.Rejected,
		Evidence:   messaging.Evidence{QueuedLocally: true, Transmission: messaging.Transmitted, Level: messaging.LevelNone},
		Routing:    routing,
		Attempts:   1,
		Failure:    f,
	}
}

// unknown is the verdict on a message that the broker may have.
func unknown(f *messaging.Failure) messaging.PublishResult {
	return messaging.PublishResult{
		Completion: messaging.Ambiguous,
		Evidence:   messaging.Evidence{QueuedLocally: true, Transmission: messaging.MayHaveBeenTransmitted, Level: messaging.LevelNone},
		Routing:    messaging.RoutingUnknown,
		Attempts:   1,
		Failure:    f,
	}
}

// confirmed is the verdict on a message that the broker acknowledged and did not
// return. Only a mandatory message proves by its silence that it was routed.
func confirmed(mandatory bool, level messaging.ConfirmationLevel, p *messaging.BrokerPosition) messaging.PublishResult {
	routing := messaging.RoutingUnknown
	if mandatory {
		routing = messaging.RoutingRouted
	}
	return messaging.PublishResult{
		Completion: messaging.Confirmed,
		Evidence: messaging.Evidence{
			QueuedLocally: true, Transmission: messaging.Transmitted, BrokerAccepted: true, Level: level,
		},
		Routing:  routing,
		Position: p,
		Attempts: 1,
	}
}

// channelException tells whether the broker closed a channel because of a
// method on it, and not with or because of the connection.
func channelException(err *amqp.Error) bool { return err != nil && err.Server && err.Recover }

// culprit is the failure of the one message whose publish caused the channel
// exception; nil where the exception says nothing about a message.
func culprit(err *amqp.Error) *messaging.Failure {
	switch err.Code {
	case amqp.NotFound:
		return failExchange
	case amqp.AccessRefused:
		return failNotAllowed
	case amqp.ContentTooLarge:
		return tooLarge("the message is over the broker's limit")
	case amqp.PreconditionFailed:
		if sizes := overBrokerLimit.FindStringSubmatch(err.Reason); sizes != nil {
			return tooLarge(fmt.Sprintf("the message has %s bytes, the broker's limit is %s", sizes[1], sizes[2]))
		}
		return failRefused
	default:
		return nil
	}
}

// overBrokerLimit reads the broker's own words about its max_message_size.
var overBrokerLimit = regexp.MustCompile(`message size (\d+) is larger than (?:the )?(?:configured )?max size (\d+)`)

func tooLarge(text string) *messaging.Failure {
	return messaging.NewFailure(messaging.CategoryValidation, messaging.CodeTooLarge, text)
}

// vhostRefusal reads why connection.open was refused. A reached connection limit
// goes away by itself, like an outage.
func vhostRefusal(err *amqp.Error) *messaging.Failure {
	switch {
	case strings.Contains(err.Reason, "limit"):
		return messaging.NewFailure(messaging.CategoryTransientInfrastructure, messaging.CodeBrokerUnreachable, "a connection limit of the broker is reached")
	case strings.Contains(err.Reason, "not found"):
		return failVHostAbsent
	default:
		return failVHostRefused
	}
}

// kind is the error kind that callers ask for with errors.Is.
func kind(f *messaging.Failure) error {
	switch f.Category {
	case messaging.CategoryAuthentication:
		return messaging.ErrAuthentication
	case messaging.CategoryAuthorization:
		return messaging.ErrAuthorization
	case messaging.CategoryConfiguration:
		return messaging.ErrConfiguration
	case messaging.CategoryThrottled:
		return messaging.ErrBackpressure
	default:
		if f.Code == messaging.CodeClosed {
			return messaging.ErrClosed
		}
		return messaging.ErrBrokerUnavailable
	}
}

// stamped completes a result with the time since the call began.
func stamped(r messaging.PublishResult, began time.Time) messaging.PublishResult {
	r.Elapsed = time.Since(began)
	return r
}
