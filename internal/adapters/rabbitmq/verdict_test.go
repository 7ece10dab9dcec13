package rabbitmq

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/backend-skeleton/relay/messaging"
)

func said(code int, text string) *amqp.Error {
	return &amqp.Error{Code: code, Reason: text, Server: true, Recover: code < 500 && code != amqp.ConnectionForced}
}

// What a channel's end means for a message that was open to the end.
func TestEndingVerdict(t *testing.T) {
	closed := &wire{closed: true, offered: 100}
	alive := &wire{offered: 100}
	lost := &amqp.Error{Code: amqp.FrameError, Reason: "EOF"}
	now := time.Now()
	young, old := now.Add(-time.Second), now.Add(-time.Hour)
	const larger = "PRECONDITION_FAILED - message size 20000000 is larger than configured max size 16777216"
	cases := map[string]struct {
		end       ending
		wire      *wire
		start     uint64
		published time.Time
		c         messaging.Completion
		code      string
		tr        messaging.Transmission
	}{
		"connection lost, offered":        {ending{said: lost, connection: true}, closed, 99, young, messaging.Ambiguous, messaging.CodeConnectionLost, messaging.MayHaveBeenTransmitted},
		"connection lost, never offered":  {ending{said: lost, connection: true}, closed, 100, young, messaging.Rejected, messaging.CodeBrokerUnreachable, messaging.NotTransmitted},
		"lost alone is no culprit":        {ending{said: lost, connection: true, alone: true}, closed, 0, young, messaging.Ambiguous, messaging.CodeConnectionLost, messaging.MayHaveBeenTransmitted},
		"broker shut down":                {ending{said: said(amqp.ConnectionForced, "CONNECTION_FORCED"), connection: true, alone: true}, closed, 0, young, messaging.Ambiguous, messaging.CodeConnectionLost, messaging.MayHaveBeenTransmitted},
		"ended without a word":            {ending{connection: true}, closed, 0, young, messaging.Ambiguous, messaging.CodeConnectionLost, messaging.MayHaveBeenTransmitted},
		"exception, one of several":       {ending{said: said(404, "")}, alive, 0, young, messaging.Ambiguous, messaging.CodeChannelClosed, messaging.MayHaveBeenTransmitted},
		"exception, open wire, unoffered": {ending{said: said(404, "")}, alive, 100, young, messaging.Ambiguous, messaging.CodeChannelClosed, messaging.MayHaveBeenTransmitted},
		"unknown exchange, alone":         {ending{said: said(404, ""), alone: true}, alive, 0, young, messaging.Rejected, messaging.CodeUnknownExchange, messaging.Transmitted},
		"no write right, alone":           {ending{said: said(403, ""), alone: true}, alive, 0, young, messaging.Rejected, messaging.CodeNotAuthorized, messaging.Transmitted},
		"too large, alone":                {ending{said: said(406, larger), alone: true}, alive, 0, young, messaging.Rejected, messaging.CodeTooLarge, messaging.Transmitted},
		"content too large, alone":        {ending{said: said(311, ""), alone: true}, alive, 0, young, messaging.Rejected, messaging.CodeTooLarge, messaging.Transmitted},
		"form, alone":                     {ending{said: said(406, "PRECONDITION_FAILED - x"), alone: true}, alive, 0, young, messaging.Rejected, messaging.CodeRecordRefused, messaging.Transmitted},
		"another exception, alone":        {ending{said: said(405, ""), alone: true}, alive, 0, young, messaging.Ambiguous, messaging.CodeChannelClosed, messaging.MayHaveBeenTransmitted},
		"patience over":                   {ending{}, alive, 0, old, messaging.Ambiguous, messaging.CodeConfirmTimeout, messaging.MayHaveBeenTransmitted},
		"patience over, connection too":   {ending{said: lost, connection: true}, closed, 0, old, messaging.Ambiguous, messaging.CodeConfirmTimeout, messaging.MayHaveBeenTransmitted},
		"beside one past its patience":    {ending{}, alive, 0, young, messaging.Ambiguous, messaging.CodeChannelClosed, messaging.MayHaveBeenTransmitted},
		"publisher stopped":               {ending{connection: true, stopped: true}, closed, 0, young, messaging.Ambiguous, messaging.CodeConfirmTimeout, messaging.MayHaveBeenTransmitted},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			e := &entry{start: c.start, published: c.published, giveUp: time.Minute}
			want(t, c.end.verdict(e, c.wire, now), c.c, c.code, c.tr)
		})
	}
}

func TestOpenFailure(t *testing.T) {
	alert := &net.OpError{Op: "remote error", Err: errors.New("tls: certificate required")}
	cases := map[string]struct {
		err, read error
		want      *messaging.Failure
	}{
		"refused by name":               {said(403, "ACCESS_REFUSED"), io.EOF, failCredentials},
		"the library's guess":           {amqp.ErrCredentials, io.EOF, failUnreachable},
		"the library's guess, no read":  {amqp.ErrVhost, nil, failUnreachable},
		"no common mechanism":           {amqp.ErrSASL, nil, failMechanism},
		"vhost absent":                  {said(530, "NOT_ALLOWED - vhost nowhere not found"), nil, failVHostAbsent},
		"vhost refused":                 {said(530, "NOT_ALLOWED - access to vhost 'x' refused for user 'u'"), nil, failVHostRefused},
		"client certificate refused":    {amqp.ErrCredentials, alert, failCertificate},
		"time over during the protocol": {amqp.ErrClosed, net.ErrClosed, failUnreachable},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if got := openFailure(c.err, c.read); got != c.want {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
	if got := openFailure(said(530, "NOT_ALLOWED - access to vhost 'x' refused for user 'u': connection limit (1) is reached"), nil); got.Category != messaging.CategoryTransientInfrastructure {
		t.Errorf("a reached limit is %v", got)
	}
}

func TestTLSFailure(t *testing.T) {
	for name, c := range map[string]struct {
		err  error
		want *messaging.Failure
	}{
		"unknown authority": {&tls.CertificateVerificationError{Err: x509.UnknownAuthorityError{}}, failCertificate},
		"other host":        {x509.HostnameError{}, failCertificate},
		"expired":           {x509.CertificateInvalidError{}, failCertificate},
		"alert":             {&net.OpError{Op: "remote error", Err: errors.New("tls: bad certificate")}, failCertificate},
		"no TLS there":      {tls.RecordHeaderError{}, failNoTLS},
		"reset":             {&net.OpError{Op: "read", Err: errors.New("connection reset by peer")}, failUnreachable},
		"end":               {io.EOF, failUnreachable},
	} {
		if got := tlsFailure(c.err); got != c.want {
			t.Errorf("%s: got %v, want %v", name, got, c.want)
		}
	}
}
