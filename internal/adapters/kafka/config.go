package kafka

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"time"

	"github.com/backend-skeleton/relay/messaging"
)

// Config describes one Kafka cluster under one identity. The zero value of every
// field but Seeds is usable.
type Config struct {
	// Name is the broker's name in the file; it marks positions and logs.
	Name string
	// Seeds are host:port addresses asked first for the cluster's brokers.
	Seeds []string
	// ClientID is what the brokers log and meter. Default "relay".
	ClientID string
	// TLS, if not nil, encrypts every connection; the server name defaults to the
	// broker's host.
	TLS *tls.Config
	// Credentials authenticate every connection; the zero value means none.
	Credentials Credentials
	// Logger gets the adapter's own events and the library's, without values.
	// Default [slog.Default].
	Logger *slog.Logger

	// ProducerInFlight is how many messages of one publisher may be unresolved;
	// Publish blocks beyond it. Default 1000.
	ProducerInFlight int
	// BatchBytes is the largest record batch, in bytes before compression (there is
	// none). A single larger message travels alone. Default 1,000,000, below the
	// brokers' own default limit of 1,048,588.
	BatchBytes int

	// DialTimeout bounds connecting and the TLS handshake. Default 2 s.
	DialTimeout time.Duration
	// AnswerGrace is how long beyond its own timeout a request may stay unanswered
	// before its connection is closed. Default 1 s.
	AnswerGrace time.Duration
	// ProbeTimeout bounds Inspect and Capabilities. Default 3 s.
	ProbeTimeout time.Duration
	// EvidenceEvery is how often topics are asked for replication and
	// min.insync.replicas. Default 5 min.
	EvidenceEvery time.Duration

	// Dial opens the connections below TLS. Default a [net.Dialer].
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// Credentials are a SASL user. Password is asked at each new connection, so that a
// rotated secret needs no restart.
type Credentials struct {
	// Mechanism is PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512.
	Mechanism string
	Username  string
	Password  func(ctx context.Context) (string, error)
}

func (c Credentials) none() bool { return c.Mechanism == "" && c.Username == "" && c.Password == nil }

func (c Config) withDefaults() Config {
	if c.Name == "" {
		c.Name = "kafka"
	}
	if c.ClientID == "" {
		c.ClientID = "relay"
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	setDefault(&c.ProducerInFlight, 1000)
	setDefault(&c.BatchBytes, 1_000_000)
	setDefault(&c.DialTimeout, 2*time.Second)
	setDefault(&c.AnswerGrace, time.Second)
	setDefault(&c.ProbeTimeout, 3*time.Second)
	setDefault(&c.EvidenceEvery, 5*time.Minute)
	return c
}

func setDefault[T ~int | ~int64](v *T, d T) {
	if *v == 0 {
		*v = d
	}
}

func (c Config) validate() error {
	var found []error
	rule := func(broken bool, text string) {
		if broken {
			found = append(found, errors.New(text))
		}
	}
	rule(len(c.Seeds) == 0, "seeds: at least one address is needed")
	for i, s := range c.Seeds {
		_, _, err := net.SplitHostPort(s)
		rule(err != nil, fmt.Sprintf("seeds[%d]: not host:port", i))
	}
	if !c.Credentials.none() {
		rule(c.Credentials.mechanism() == nil, "credentials: mechanism is PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512")
		rule(c.Credentials.Username == "", "credentials: a user name is needed")
		rule(c.Credentials.Password == nil, "credentials: a password is needed")
	}
	rule(c.ProducerInFlight < 0, "producer in-flight: at least 1")
	rule(c.BatchBytes < 0 || c.BatchBytes > maxRecordBytes, fmt.Sprintf("batch bytes: 1 to %d", maxRecordBytes))
	rule(c.DialTimeout < 0 || c.AnswerGrace < 0 || c.ProbeTimeout < 0 || c.EvidenceEvery < 0, "timeouts: more than zero")
	if len(found) == 0 {
		return nil
	}
	return &messaging.Error{Op: "kafka adapter " + c.Name, Kind: messaging.ErrConfiguration, Cause: errors.Join(found...)}
}
