package rabbitmq

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/backend-skeleton/relay/messaging"
)

// frameSize is what is asked of the broker; it may agree on less.
const frameSize = 131072

// dialError is why a connection did not come up. Its failure carries no text of
// the library or the broker.
type dialError struct {
	failure *messaging.Failure
	cause   error
}

func (e *dialError) Error() string { return e.failure.Error() }
func (e *dialError) Unwrap() error { return e.cause }

// dial brings up one connection to one address, or closes what it opened.
// Everything together takes at most [Config.DialTimeout].
func dial(ctx context.Context, c *Config, seed string, log *slog.Logger, changed func()) (*session, *dialError) {
	ctx, cancel := context.WithTimeout(ctx, c.DialTimeout)
	defer cancel()
	address, err := c.address(seed)
	if err != nil {
		return nil, &dialError{failUnreachable, err}
	}
	properties := amqp.Table{"product": "relay", "connection_name": c.ClientID}
	auth, err := c.Credentials.sasl(ctx, properties)
	if err != nil {
		return nil, &dialError{failSecret, fmt.Errorf("read password: %w", err)}
	}
	socket, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, &dialError{failUnreachable, err}
	}
	// Both handshakes know no context: closing the socket ends them.
	unwatch := context.AfterFunc(ctx, func() { _ = socket.Close() })
	defer unwatch()

	conn := socket
	if c.TLS != nil {
		secured, err := handshake(ctx, c.TLS, socket, address)
		if err != nil {
			_ = socket.Close()
			return nil, &dialError{tlsFailure(err), err}
		}
		conn = secured
	}
	w := newWire(conn, socket, changed)
	connection, err := amqp.Open(w, amqp.Config{
		SASL: []amqp.Authentication{auth}, Vhost: c.VHost, Heartbeat: c.Heartbeat,
		FrameSize: frameSize, Locale: "en_US", Properties: properties,
	})
	if err == nil && !unwatch() {
		err = ctx.Err() // the socket was closed at the last moment
	}
	if err != nil {
		_ = w.Close()
		<-w.done
		return nil, &dialError{openFailure(err, w.readError()), err}
	}
	return newSession(connection, w, log, changed), nil
}

func handshake(ctx context.Context, config *tls.Config, socket net.Conn, address string) (net.Conn, error) {
	if config.ServerName == "" {
		host, _, err := net.SplitHostPort(address)
		if err != nil {
			return nil, err
		}
		config = config.Clone()
		config.ServerName = host
	}
	conn := tls.Client(socket, config)
	return conn, conn.HandshakeContext(ctx)
}

// tlsFailure tells a refused certificate from a lost connection.
func tlsFailure(err error) *messaging.Failure {
	var (
		verification *tls.CertificateVerificationError
		authority    x509.UnknownAuthorityError
		invalid      x509.CertificateInvalidError
		hostname     x509.HostnameError
		record       tls.RecordHeaderError
		operation    *net.OpError
	)
	switch {
	case errors.As(err, &verification), errors.As(err, &authority), errors.As(err, &invalid), errors.As(err, &hostname):
		return failCertificate
	case errors.As(err, &operation) && operation.Op == "remote error": // an alert: the broker refuses ours
		return failCertificate
	case errors.As(err, &record):
		return failNoTLS
	default:
		return failUnreachable
	}
}

// openFailure reads why the AMQP handshake ended. Only what the broker itself
// said counts: the library also calls a lost connection a refused password.
func openFailure(err, read error) *messaging.Failure {
	var said *amqp.Error
	switch {
	case errors.Is(err, amqp.ErrSASL):
		return failMechanism
	case errors.As(err, &said) && said.Server && said.Code == amqp.AccessRefused:
		return failCredentials
	case errors.As(err, &said) && said.Server && said.Code == amqp.NotAllowed:
		return vhostRefusal(said)
	case read != nil: // with TLS 1.3 a refused client certificate shows at the first read
		return tlsFailure(read)
	default:
		return failUnreachable
	}
}

// sasl asks for the password and gives the mechanism's answer.
func (c *Credentials) sasl(ctx context.Context, properties amqp.Table) (amqp.Authentication, error) {
	if c.Mechanism == mechanismExternal {
		return outspoken{&amqp.ExternalAuth{}, properties}, nil
	}
	password, err := c.Password(ctx)
	if err != nil {
		return nil, err
	}
	return outspoken{&amqp.PlainAuth{Username: c.Username, Password: password}, properties}, nil
}

// outspoken makes the broker say that it refuses user name or password. It does
// so only to clients that announce the capability, which the library does not;
// otherwise it drops the connection, which could be an outage as well. The
// library asks for the response after it filled in its own capabilities.
type outspoken struct {
	amqp.Authentication
	properties amqp.Table
}

// Response adds the capability to the properties that travel beside it.
func (o outspoken) Response() string {
	if capabilities, ok := o.properties["capabilities"].(amqp.Table); ok {
		capabilities["authentication_failure_close"] = true
	}
	return o.Authentication.Response()
}
