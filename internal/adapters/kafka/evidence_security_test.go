package kafka

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/backend-skeleton/relay/internal/testenv"
	"github.com/backend-skeleton/relay/messaging"
	"github.com/backend-skeleton/relay/messaging/transport"
)

const (
	authentication = "REJECTED AUTHENTICATION AUTHENTICATION_FAILED NOT_TRANSMITTED NOT_APPLICABLE"
	noRight        = "REJECTED AUTHORIZATION NOT_AUTHORIZED NOT_TRANSMITTED NOT_APPLICABLE"
)

// asUser gives an adapter's configuration for a user of the real broker.
func asUser(t testing.TB, mechanism, user string, password func(context.Context) (string, error)) func(*Config) {
	addr := testenv.Require(t, "KAFKA_SASL_BOOTSTRAP")
	return func(c *Config) {
		c.Seeds = strings.Split(addr, ",")
		c.Credentials = Credentials{Mechanism: mechanism, Username: testenv.Require(t, "KAFKA_"+user+"_USER"), Password: password}
	}
}

func right(t testing.TB, user string) func(context.Context) (string, error) {
	p := testenv.Require(t, "KAFKA_"+user+"_PASSWORD")
	return func(context.Context) (string, error) { return p, nil }
}

// TestEvidence_Credentials: every mechanism publishes with the right password; with a
// wrong or unreadable one nothing is sent and it is told at once.
func TestEvidence_Credentials(t *testing.T) {
	t.Parallel()
	c := realCluster(t)
	topic := c.topic(t, 1)
	for _, m := range []string{"PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"} {
		t.Run(m, func(t *testing.T) {
			t.Parallel()
			_, p := c.adapter(t, asUser(t, m, "PRODUCER", right(t, "PRODUCER")))
			expectAll(t, publish(t, p, endpoint(topic), 20*time.Second, message("k", "1")), confirmedVerdict)

			for name, password := range map[string]func(context.Context) (string, error){
				"wrong":      func(context.Context) (string, error) { return "not it", nil },
				"unreadable": func(context.Context) (string, error) { return "", errors.New("secret path /x") },
			} {
				a, p := c.adapter(t, asUser(t, m, "PRODUCER", password))
				rs := publish(t, p, endpoint(topic), 20*time.Second, message("k", "2"))
				expectAll(t, rs, authentication)
				if rs[0].Elapsed > 3*time.Second {
					t.Errorf("%s password: told after %s", name, rs[0].Elapsed)
				}
				if text := rs[0].Failure.Error(); strings.Contains(text, "secret") || strings.Contains(text, "not it") {
					t.Errorf("the secret or its source is quoted: %s", text)
				}
				if _, err := a.Inspect(t.Context(), []transport.Endpoint{endpoint(topic)}); !errors.Is(err, messaging.ErrAuthentication) {
					t.Errorf("%s password: Inspect says %v", name, err)
				}
			}
		})
	}
}

// TestPasswordIsReadAtEachConnection: a rotated secret needs no restart.
func TestPasswordIsReadAtEachConnection(t *testing.T) {
	t.Parallel()
	c := realCluster(t)
	topic := c.topic(t, 1)
	var now atomic.Pointer[string]
	wrong, good := "not it", testenv.Require(t, "KAFKA_PRODUCER_PASSWORD")
	now.Store(&wrong)
	_, p := c.adapter(t, asUser(t, "SCRAM-SHA-512", "PRODUCER", func(context.Context) (string, error) { return *now.Load(), nil }))
	expectAll(t, publish(t, p, endpoint(topic), 20*time.Second, message("k", "1")), authentication)
	now.Store(&good)
	expectAll(t, publish(t, p, endpoint(topic), 20*time.Second, message("k", "2")), confirmedVerdict)
}

// TestEvidence_NotAuthorized: no right on this topic, and none on any.
func TestEvidence_NotAuthorized(t *testing.T) {
	t.Parallel()
	c := realCluster(t)
	foreign := strings.Replace(topicName(t), "relay.", "foreign.", 1)
	c.create(t, foreign, 1)
	topic := c.topic(t, 1)

	a, p := c.adapter(t, asUser(t, "SCRAM-SHA-512", "PRODUCER", right(t, "PRODUCER")))
	expectAll(t, publish(t, p, endpoint(foreign), 20*time.Second, message("k", "1")), noRight)
	expectAll(t, publish(t, p, endpoint(topic), 20*time.Second, message("k", "1")), confirmedVerdict)
	if _, err := a.Inspect(t.Context(), []transport.Endpoint{endpoint(foreign)}); !errors.Is(err, messaging.ErrAuthorization) {
		t.Errorf("Inspect says %v", err)
	}

	_, reader := c.adapter(t, asUser(t, "SCRAM-SHA-512", "CONSUMER", right(t, "CONSUMER")))
	expectAll(t, publish(t, reader, endpoint(topic), 20*time.Second, message("k", "2")), noRight)
	if n := len(c.stored(t, topic)); n != 1 {
		t.Errorf("%d records stored, want 1", n)
	}
}

// TestEvidence_TLS: the right certificates publish; each wrong one sends nothing.
func TestEvidence_TLS(t *testing.T) {
	t.Parallel()
	c := realCluster(t)
	topic := c.topic(t, 1)
	pem, err := os.ReadFile(testenv.Require(t, "KAFKA_CA"))
	if err != nil {
		t.Fatal(err)
	}
	known := x509.NewCertPool()
	known.AppendCertsFromPEM(pem)
	own, err := tls.LoadX509KeyPair(testenv.Require(t, "KAFKA_CLIENT_CERT"), testenv.Require(t, "KAFKA_CLIENT_KEY"))
	if err != nil {
		t.Fatal(err)
	}
	for name, v := range map[string]struct {
		listener string
		conf     *tls.Config
		want     string
	}{
		"known authority":                {"KAFKA_TLS_BOOTSTRAP", &tls.Config{RootCAs: known}, confirmedVerdict},
		"known authority and password":   {"KAFKA_SASL_TLS_BOOTSTRAP", &tls.Config{RootCAs: known}, confirmedVerdict},
		"known authority and client":     {"KAFKA_MTLS_BOOTSTRAP", &tls.Config{RootCAs: known, Certificates: []tls.Certificate{own}}, confirmedVerdict},
		"unknown authority":              {"KAFKA_TLS_BOOTSTRAP", &tls.Config{RootCAs: x509.NewCertPool()}, authentication},
		"no client certificate":          {"KAFKA_MTLS_BOOTSTRAP", &tls.Config{RootCAs: known}, authentication},
		"another name":                   {"KAFKA_TLS_BOOTSTRAP", &tls.Config{RootCAs: known, ServerName: "elsewhere.example"}, authentication},
		"no TLS where the broker speaks": {"KAFKA_TLS_BOOTSTRAP", nil, "REJECTED TRANSIENT_INFRASTRUCTURE BROKER_UNREACHABLE NOT_TRANSMITTED NOT_APPLICABLE"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			timeout := 20 * time.Second
			if v.conf == nil {
				timeout = 2 * time.Second // it is tried to the end
			}
			_, p := c.adapter(t, func(conf *Config) {
				if v.listener == "KAFKA_SASL_TLS_BOOTSTRAP" {
					asUser(t, "SCRAM-SHA-256", "PRODUCER", right(t, "PRODUCER"))(conf)
				}
				conf.Seeds, conf.TLS = strings.Split(testenv.Require(t, v.listener), ","), v.conf
			})
			expectAll(t, publish(t, p, endpoint(topic), timeout, message("k", "1")), v.want)
		})
	}
}
