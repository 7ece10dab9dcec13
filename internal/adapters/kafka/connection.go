package kafka

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

// errNoPassword says that the source of the password failed; what it said stays
// with it, since it may name a secret.
var errNoPassword = errors.New("the password cannot be read")

// errHandshake marks a failed TLS handshake.
var errHandshake = errors.New("tls handshake")

const (
	retryFirst = 50 * time.Millisecond
	retryMost  = 500 * time.Millisecond
)

// backoff is the pause before try number n, which begins at 1, with jitter.
func backoff(n int) time.Duration {
	d := retryMost
	if n < 5 {
		d = min(retryMost, retryFirst<<(n-1))
	}
	return d/2 + rand.N(d/2)
}

// newClient makes the library's client. It carries requests; none of its own
// producing or consuming is used. It dials nothing yet.
func newClient(c Config, hooks ...kgo.Hook) (*kgo.Client, error) {
	opts := []kgo.Opt{
		kgo.SeedBrokers(c.Seeds...),
		kgo.ClientID(c.ClientID),
		kgo.SoftwareNameAndVersion("relay", "1"),
		kgo.Dialer(c.dial),
		kgo.RequestTimeoutOverhead(c.AnswerGrace),
		kgo.ConnIdleTimeout(4 * time.Minute), // below the brokers' ten: a quiet destination need not connect anew
		kgo.RequestRetries(4),                // one round over the seeds; this package's own loops go on
		kgo.RetryBackoffFn(backoff),
		kgo.DisableClientMetrics(),
		kgo.WithHooks(hooks...),
		kgo.WithLogger(newLibraryLog(c.Logger, c.Name)),
	}
	if m := c.Credentials.mechanism(); m != nil {
		opts = append(opts, kgo.SASL(m))
	}
	cl, err := kgo.NewClient(opts...)
	if err != nil {
		return nil, fmt.Errorf("kafka client of %s: %w", c.Name, err)
	}
	return cl, nil
}

// dial opens a connection, with TLS on top where the configuration says so.
func (c Config) dial(ctx context.Context, network, address string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, c.DialTimeout)
	defer cancel()
	open := c.Dial
	if open == nil {
		open = new(net.Dialer).DialContext
	}
	conn, err := open(ctx, network, address)
	if err != nil || c.TLS == nil {
		return conn, err
	}
	conf := c.TLS.Clone()
	if conf.ServerName == "" {
		if host, _, err := net.SplitHostPort(address); err == nil {
			conf.ServerName = host
		}
	}
	secure := tls.Client(conn, conf)
	if err := secure.HandshakeContext(ctx); err != nil {
		conn.Close()
		return nil, fmt.Errorf("%w: %w", errHandshake, err)
	}
	return secure, nil
}

// mechanism is nil where none is configured or the name is unknown.
func (c Credentials) mechanism() sasl.Mechanism {
	password := func(ctx context.Context) (string, error) {
		p, err := c.Password(ctx)
		if err != nil || p == "" {
			return "", errNoPassword
		}
		return p, nil
	}
	scramAuth := func(ctx context.Context) (scram.Auth, error) {
		p, err := password(ctx)
		return scram.Auth{User: c.Username, Pass: p}, err
	}
	switch c.Mechanism {
	case "PLAIN":
		return plain.Plain(func(ctx context.Context) (plain.Auth, error) {
			p, err := password(ctx)
			return plain.Auth{User: c.Username, Pass: p}, err
		})
	case "SCRAM-SHA-256":
		return scram.Sha256(scramAuth)
	case "SCRAM-SHA-512":
		return scram.Sha512(scramAuth)
	}
	return nil
}
