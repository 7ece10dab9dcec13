package kafka

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"os"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/backend-skeleton/relay/messaging"
)

// errNoAnswer says that a broker answered a request and left a partition out.
var errNoAnswer = errors.New("the answer leaves the partition out")

// cause is why a message was not stored, or why that cannot be told. Its text is
// fixed: the library's and the broker's own texts may quote what travels.
type cause struct {
	category messaging.Category
	code     string
	text     string
	// lasting causes are not worth another try inside the publish timeout.
	lasting bool
}

func (c *cause) failure() *messaging.Failure {
	return messaging.NewFailure(c.category, c.code, c.text)
}

func transient(code, text string) *cause {
	return &cause{category: messaging.CategoryTransientInfrastructure, code: code, text: text}
}

func ambiguous(code, text string) *cause {
	return &cause{category: messaging.CategoryAmbiguous, code: code, text: text}
}

func configured(code, text string) *cause {
	return &cause{category: messaging.CategoryConfiguration, code: code, text: text, lasting: true}
}

func refused(code, text string) *cause {
	return &cause{category: messaging.CategoryValidation, code: code, text: text, lasting: true}
}

var (
	causeNotSent      = transient(messaging.CodeNotSent, "the time was over before anything was written")
	causeNoLeader     = transient(messaging.CodeNotSent, "the partition has no leader")
	causeLeaderGone   = transient(messaging.CodeNotSent, "the partition's leader cannot be reached, while other brokers answer")
	causeUnreachable  = transient(messaging.CodeBrokerUnreachable, "the broker cannot be reached")
	causePredecessor  = transient(messaging.CodePredecessorNotStored, "an earlier message of the key in the same call is not known to be stored")
	causeReplicas     = transient(messaging.CodeNotEnoughReplicas, "the partition has fewer in-sync replicas than it demands")
	causeSessionLost  = transient(messaging.CodeProducerSessionLost, "the broker refused the producer's session, and a new one")
	causeClosed       = &cause{category: messaging.CategoryTransientInfrastructure, code: messaging.CodeClosed, text: "the adapter is closed", lasting: true}
	causeBackpressure = &cause{category: messaging.CategoryThrottled, code: messaging.CodeBackpressure, text: "the publisher's in-flight limit was used up all the time"}
	causeThrottled    = &cause{category: messaging.CategoryThrottled, code: messaging.CodeThrottled, text: "a quota of the broker refused it", lasting: true}

	causeNoTopic       = &cause{category: messaging.CategoryConfiguration, code: messaging.CodeUnknownTopic, text: "the topic does not exist"}
	causeNoPartition   = &cause{category: messaging.CategoryConfiguration, code: messaging.CodeUnknownTopic, text: "the topic's partition does not exist any more"}
	causeBadTopic      = configured(messaging.CodeBrokerConfiguration, "the topic's name is not valid")
	causeUnsupported   = configured(messaging.CodeBrokerConfiguration, "the broker does not support the request")
	causeEndpoint      = configured(messaging.CodeBrokerConfiguration, "the destination's settings are not usable")
	causeNotAuthorized = &cause{category: messaging.CategoryAuthorization, code: messaging.CodeNotAuthorized, text: "no right to write to the topic", lasting: true}
	causeNoRights      = &cause{category: messaging.CategoryAuthorization, code: messaging.CodeNotAuthorized, text: "no right to write to any topic of the cluster", lasting: true}
	causeNotKnown      = &cause{category: messaging.CategoryAuthentication, code: messaging.CodeAuthenticationFailed, text: "the broker does not accept the credentials", lasting: true}
	causeNoSecret      = &cause{category: messaging.CategoryAuthentication, code: messaging.CodeAuthenticationFailed, text: "the password cannot be read", lasting: true}
	causeCertificate   = &cause{category: messaging.CategoryAuthentication, code: messaging.CodeAuthenticationFailed, text: "the TLS handshake was refused", lasting: true}

	causeHeader  = refused(messaging.CodeHeaderRejected, "a header's name is empty or not UTF-8 text")
	causeRecord  = refused(messaging.CodeRecordRefused, "the broker refuses the record for its form")
	causeTooMuch = refused(messaging.CodeTooLarge, "the record is over a size limit")

	causeNoConfirm  = ambiguous(messaging.CodeConfirmTimeout, "no answer in time")
	causeCut        = ambiguous(messaging.CodeConnectionLost, "the connection ended after bytes may have left")
	causeCannotTell = ambiguous(messaging.CodeUnknownOutcome, "the broker's answer does not tell whether it is stored")
)

// connectCause says why a request without an answer never left: what stood in the
// way of a connection. It is nil where only the caller's time or the adapter ended.
func connectCause(err error) *cause {
	var remote *net.OpError
	switch {
	case err == nil, errors.Is(err, context.Canceled), errors.Is(err, kgo.ErrClientClosed):
		return nil
	case errors.Is(err, errNoPassword):
		return causeNoSecret
	case errors.Is(err, kerr.SaslAuthenticationFailed), errors.Is(err, kerr.UnsupportedSaslMechanism), errors.Is(err, kerr.IllegalSaslState):
		return causeNotKnown
	case isCertificate(err), errors.As(err, &remote) && remote.Op == "remote error":
		return causeCertificate // a remote error is the peer's TLS alert
	case errors.Is(err, kerr.ClusterAuthorizationFailed):
		return causeNoRights
	case errors.Is(err, kerr.TopicAuthorizationFailed):
		return causeNotAuthorized
	case errors.Is(err, kerr.UnsupportedVersion):
		return causeUnsupported
	default:
		return causeUnreachable
	}
}

func isCertificate(err error) bool {
	var (
		verify  *tls.CertificateVerificationError
		unknown x509.UnknownAuthorityError
		invalid x509.CertificateInvalidError
		name    x509.HostnameError
	)
	return errors.As(err, &verify) || errors.As(err, &unknown) || errors.As(err, &invalid) || errors.As(err, &name)
}

// lostCause says what became of a request that was begun and whose answer
// was not read.
func lostCause(err error) *cause {
	var timeout net.Error
	switch {
	case errors.Is(err, errNoAnswer):
		return causeCannotTell
	case errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled),
		errors.As(err, &timeout) && timeout.Timeout():
		return causeNoConfirm
	default:
		return causeCut
	}
}
