package rabbitmq

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/backend-skeleton/relay/internal/brokertest"
	"github.com/backend-skeleton/relay/messaging"
	"github.com/backend-skeleton/relay/messaging/transport"
)

// A connection that is refused says why, on every message and at the probe.
func TestEvidence_ConnectionRefused(t *testing.T) {
	t.Parallel()
	v := bound(t)
	tlsURL, err := url.Parse(brokertest.Require(t, "RABBITMQ_TLS_URL_1"))
	if err != nil {
		t.Fatal("RABBITMQ_TLS_URL_1 is not a URL")
	}
	foreign := brokertest.NewVhost(t)
	user, password := v.User(t, ".*", ".*", ".*") // of v, not of foreign
	cases := map[string]struct {
		change   func(*Config)
		category messaging.Category
		code     string
		kind     error
	}{
		"wrong password": {
			func(c *Config) { c.Credentials.Password = secret("wrong") },
			messaging.CategoryAuthentication, messaging.CodeAuthenticationFailed, messaging.ErrAuthentication,
		},
		"password cannot be read": {
			func(c *Config) {
				c.Credentials.Password = func(context.Context) (string, error) { return "", os.ErrNotExist }
			},
			messaging.CategoryAuthentication, messaging.CodeAuthenticationFailed, messaging.ErrAuthentication,
		},
		"foreign vhost": {
			func(c *Config) {
				c.Credentials = Credentials{Username: user, Password: secret(password)}
				c.VHost = foreign.Name
			},
			messaging.CategoryAuthorization, messaging.CodeNotAuthorized, messaging.ErrAuthorization,
		},
		"unknown vhost": {
			func(c *Config) { c.VHost = "nowhere" },
			messaging.CategoryConfiguration, messaging.CodeBrokerConfiguration, messaging.ErrConfiguration,
		},
		"unknown CA": {
			func(c *Config) { c.Seeds, c.TLS = []string{tlsURL.Host}, &tls.Config{RootCAs: x509.NewCertPool()} },
			messaging.CategoryAuthentication, messaging.CodeAuthenticationFailed, messaging.ErrAuthentication,
		},
		"TLS to a plain port": {
			func(c *Config) { c.TLS = &tls.Config{} },
			messaging.CategoryConfiguration, messaging.CodeBrokerConfiguration, messaging.ErrConfiguration,
		},
		"nothing listens": {
			func(c *Config) { c.Seeds = []string{"127.0.0.1:1"} },
			messaging.CategoryTransientInfrastructure, messaging.CodeBrokerUnreachable, messaging.ErrBrokerUnavailable,
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			config := configFor(t, v)
			c.change(&config)
			a, p := open(t, config)
			r := publish(t, p, to("e", "k"), message("", "{}"))[0]
			want(t, r, messaging.Rejected, c.code, messaging.NotTransmitted)
			if r.Failure.Category != c.category {
				t.Errorf("category %v, want %v", r.Failure.Category, c.category)
			}
			if _, err := a.Inspect(t.Context(), []transport.Endpoint{to("e", "k")}); !errors.Is(err, c.kind) {
				t.Errorf("the probe says %v, want %v", err, c.kind)
			}
		})
	}
}

func TestConnectsByTLSAndByClientCertificate(t *testing.T) {
	t.Parallel()
	v := bound(t)
	tlsURL, err := url.Parse(brokertest.Require(t, "RABBITMQ_TLS_URL_1"))
	if err != nil {
		t.Fatal("RABBITMQ_TLS_URL_1 is not a URL")
	}
	pem, err := os.ReadFile(brokertest.Require(t, "RABBITMQ_CA"))
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(pem)
	pair, err := tls.LoadX509KeyPair(brokertest.Require(t, "RABBITMQ_CLIENT_CERT"), brokertest.Require(t, "RABBITMQ_CLIENT_KEY"))
	if err != nil {
		t.Fatal(err)
	}
	byPassword, byCertificate := configFor(t, v), configFor(t, v)
	for _, c := range []*Config{&byPassword, &byCertificate} {
		c.Seeds = []string{tlsURL.Host}
		c.TLS = &tls.Config{RootCAs: roots}
	}
	byCertificate.TLS.Certificates = []tls.Certificate{pair}
	byCertificate.Credentials = Credentials{Mechanism: "EXTERNAL"}
	for name, c := range map[string]Config{"password": byPassword, "certificate": byCertificate} {
		_, p := open(t, c)
		for range 2 {
			r := publish(t, p, to("e", "k"), message("", "{}"))
			if r[0].Completion != messaging.Confirmed {
				t.Errorf("%s: %v", name, r[0].Failure)
			}
		}
	}
}

// The password is asked at every connect, and a rotated one needs no restart.
func TestEvidence_PasswordRotation(t *testing.T) {
	t.Parallel()
	v := bound(t)
	user, old := v.User(t, ".*", ".*", ".*")
	var current atomic.Value
	current.Store(old)
	var asked atomic.Int32
	c := configFor(t, v)
	c.Credentials = Credentials{Username: user, Password: func(context.Context) (string, error) {
		asked.Add(1)
		return current.Load().(string), nil
	}}
	proxy := newFaultProxy(t, v.Addr())
	_, p := open(t, through(c, proxy))
	wantConfirmed(t, publish(t, p, to("e", "k"), message("", "{}"))...)
	v.Password(t, user, "rotated")
	current.Store("rotated")
	before := asked.Load()
	proxy.cutAll()
	retry(t, p, to("e", "k"), message("", "{}"))
	if asked.Load() == before {
		t.Error("the password was not asked again")
	}
}

// B20: one connection at a time, and the pauses between attempts grow.
func TestEvidence_B20_ReconnectsDoNotPileUp(t *testing.T) {
	t.Parallel()
	v := bound(t)
	proxy := newFaultProxy(t, v.Addr())
	c := through(configFor(t, v), proxy)
	c.BackoffInitial, c.BackoffMax = 50*time.Millisecond, 400*time.Millisecond
	_, p := open(t, c)
	wantConfirmed(t, publish(t, p, to("e", "k"), message("", "{}"))...)
	// The handshake begins and fails in the middle, again and again.
	var most atomic.Int32
	proxy.client(func(f amqpFrame) fate {
		most.Store(max(most.Load(), proxy.live.Load()))
		if f.is(10, 40) { // connection.open
			return cut
		}
		return pass
	})
	proxy.cutAll()
	brokertest.Eventually(t, patience, "eight attempts", func() bool { return proxy.dials.Load() >= 9 })
	gaps := proxy.gaps()[1:] // the first one is how long the connection was good
	if most.Load() > 2 {
		t.Errorf("%d connections at a time", most.Load())
	}
	if last := gaps[len(gaps)-1]; last < 200*time.Millisecond { // it began with 50 ms; a slow machine makes each longer
		t.Errorf("pauses %v do not grow to half of the cap at least", gaps)
	}
	proxy.client(nil)
	retry(t, p, to("e", "k"), message("", "{}"))
	brokertest.Eventually(t, patience, "one connection is left", func() bool { return proxy.live.Load() == 1 })
}

// A key's messages of one call are stored as a prefix in order, whenever the
// connection is cut; what is confirmed is stored.
func TestEvidence_KeyPrefixThroughACut(t *testing.T) {
	t.Parallel()
	v := bound(t)
	got := brokertest.CaptureRabbit(t, v.URL(), "q")
	proxy := newFaultProxy(t, v.Addr())
	_, p := open(t, through(configFor(t, v), proxy), to("e", "k"))
	brokertest.Eventually(t, patience, "the queue was seen", func() bool { return p.KeyPrefix(to("e", "k")) })
	const keys, each = 5, 200
	for round, after := range []uint64{2, 50, 150} {
		proxy.server(func(f amqpFrame) fate {
			if f.acks() && f.tag() > after {
				return cut
			}
			return pass
		})
		ms := messages(keys*each, func(i int) string { return string(rune('a' + i%keys)) })
		rs := brief(t, p, 2*time.Second, to("e", "k"), ms...).wait(patience)
		if rs[len(rs)-1].Completion == messaging.Confirmed {
			t.Fatal("the cut did not happen")
		}
		proxy.server(nil)
		retry(t, p, to("e", "k"), message("", "end of round"))
		end := 0
		brokertest.Eventually(t, patience, "the end of the round arrives", func() bool {
			end = 0
			for _, m := range got.All() {
				if string(m.Body) == "end of round" {
					end++
				}
			}
			return end == round+1
		})
		stored := got.IDs()
		for k := range keys {
			hole := false
			for i := k; i < len(ms); i += keys {
				n := stored[ms[i].ID.String()]
				switch {
				case n > 1:
					t.Errorf("message %d was stored %d times", i, n)
				case n == 1 && hole:
					t.Errorf("message %d of key %d is stored, an earlier one is not", i, k)
				case n == 0 && rs[i].Completion == messaging.Confirmed:
					t.Errorf("message %d is confirmed and not stored", i)
				case n == 1 && rs[i].Completion == messaging.Rejected:
					t.Errorf("message %d is stored and called %v", i, rs[i].Failure)
				}
				hole = hole || n == 0
			}
		}
	}
}

func TestKeyPrefixNeedsItsProof(t *testing.T) {
	t.Parallel()
	v := bound(t)
	v.Queue(t, "full", map[string]any{"x-max-length": 1, "x-overflow": "reject-publish"})
	v.Bind(t, "e", "full", "full")
	a, p := open(t, configFor(t, v))
	for _, c := range []struct {
		e    transport.Endpoint
		want bool
	}{{to("e", "k"), true}, {to("e", "full"), false}, {to("e", "nobody"), false}, {to("absent", "k"), false}, {byPartitionKey("e"), false}, {to("", "q"), true}} {
		if p.KeyPrefix(c.e) {
			t.Errorf("%v: a prefix without a look at the queue", c.e.Physical)
		}
		if _, err := a.Capabilities(t.Context(), c.e); err != nil {
			t.Fatal(err)
		}
		if got := p.KeyPrefix(c.e); got != c.want {
			t.Errorf("%v: prefix %v, want %v", c.e.Physical, got, c.want)
		}
	}
}

// Of a key whose message is refused here, nothing later of the call goes out.
func TestNothingOfAKeyFollowsARefusedMessage(t *testing.T) {
	t.Parallel()
	v := bound(t)
	c := configFor(t, v)
	c.MaxMessageBytes = 100
	_, p := open(t, c)
	ms := messages(6, func(i int) string { return []string{"a", "b"}[i%2] })
	ms[2].Value = make([]byte, 101)
	rs := publish(t, p, to("e", "k"), ms...)
	wantConfirmed(t, rs[0], rs[1], rs[3], rs[5])
	want(t, rs[2], messaging.Rejected, messaging.CodeTooLarge, messaging.NotTransmitted)
	want(t, rs[4], messaging.Rejected, messaging.CodePredecessorNotStored, messaging.NotTransmitted)
}

// The API must have answered once; after that the last proof stands.
func TestCapabilitiesKeepTheLastProof(t *testing.T) {
	t.Parallel()
	v := bound(t)
	c := configFor(t, v)
	api, err := url.Parse(c.Management.URL)
	if err != nil {
		t.Fatal(err)
	}
	var down atomic.Bool
	down.Store(true)
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if down.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		r.URL.Scheme, r.URL.Host, r.RequestURI = api.Scheme, api.Host, ""
		r.Header.Del("Accept-Encoding")
		answer, err := http.DefaultTransport.RoundTrip(r)
		if err != nil {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		defer func() { _ = answer.Body.Close() }()
		w.WriteHeader(answer.StatusCode)
		_, _ = io.Copy(w, answer.Body)
	}))
	t.Cleanup(proxy.Close)
	t.Cleanup(http.DefaultTransport.(*http.Transport).CloseIdleConnections)
	c.Management.URL = proxy.URL
	a, _ := open(t, c)
	e := to("e", "k")
	if caps, err := a.Capabilities(t.Context(), e); !errors.Is(err, messaging.ErrBrokerUnavailable) || caps.ReplicationOrPersistenceEvidence {
		t.Errorf("never seen: %+v (%v)", caps, err)
	}
	down.Store(false)
	if caps, err := a.Capabilities(t.Context(), e); err != nil || !caps.ReplicationOrPersistenceEvidence {
		t.Errorf("seen: %+v (%v)", caps, err)
	}
	down.Store(true)
	if caps, err := a.Capabilities(t.Context(), e); err != nil || !caps.ReplicationOrPersistenceEvidence {
		t.Errorf("the last proof is gone: %+v (%v)", caps, err)
	}
	// A look that succeeds and sees less counts.
	down.Store(false)
	v.DeleteQueue(t, "q")
	if caps, err := a.Capabilities(t.Context(), e); err != nil || caps.ReplicationOrPersistenceEvidence {
		t.Errorf("the queue is gone: %+v (%v)", caps, err)
	}
}

func TestManagementRefusesAForeignIdentity(t *testing.T) {
	t.Parallel()
	v := bound(t)
	c := configFor(t, v)
	c.Management.Password = secret("wrong")
	a, _ := open(t, c)
	_, err := a.Capabilities(t.Context(), to("e", "k"))
	if !errors.Is(err, messaging.ErrAuthentication) {
		t.Errorf("got %v", err)
	}
}

func TestInspect(t *testing.T) {
	t.Parallel()
	v := bound(t)
	v.Queue(t, "seen", nil)
	user, password := v.User(t, "", "^(e|x|seen)$", "") // a producer: nothing to configure, nothing to read
	c := configFor(t, v)
	c.Credentials = Credentials{Username: user, Password: secret(password)}
	a, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = a.Close(context.Background()) }()
	with := func(exchange, queue string) transport.Endpoint {
		e := to(exchange, "k")
		e.Physical["queue"] = queue
		return e
	}
	drift := func(field string) transport.Drift {
		return transport.Drift{Destination: "orders", Field: field, Want: "present", Have: "absent"}
	}
	for name, c := range map[string]struct {
		e    transport.Endpoint
		want []transport.Drift
	}{
		"all there":        {with("e", "seen"), nil},
		"queue not to see": {with("e", "q"), nil},
		"no queue named":   {with("e", ""), nil},
		"default exchange": {with("", ""), nil},
		"exchange absent":  {with("x", "q"), []transport.Drift{drift("exchange")}},
		"queue absent":     {with("e", "x"), []transport.Drift{drift("queue")}},
		"both absent":      {with("x", "x"), []transport.Drift{drift("exchange"), drift("queue")}},
	} {
		got, err := a.Inspect(t.Context(), []transport.Endpoint{c.e})
		if err != nil || len(got) != len(c.want) {
			t.Errorf("%s: %v (%v), want %v", name, got, err, c.want)
			continue
		}
		for i := range got {
			if got[i] != c.want[i] {
				t.Errorf("%s: %v, want %v", name, got[i], c.want[i])
			}
		}
	}
	if err := a.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := a.Inspect(t.Context(), []transport.Endpoint{to("e", "k")}); !errors.Is(err, messaging.ErrClosed) {
		t.Errorf("after close: %v", err)
	}
}

func TestPublishAfterClose(t *testing.T) {
	t.Parallel()
	v := bound(t)
	a, p := open(t, configFor(t, v))
	wantConfirmed(t, publish(t, p, to("e", "k"), message("", "{}"))...)
	if err := p.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	want(t, publish(t, p, to("e", "k"), message("", "{}"))[0], messaging.Rejected, messaging.CodeClosed, messaging.NotTransmitted)
	if err := a.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := a.Publisher(t.Context(), nil); !errors.Is(err, messaging.ErrClosed) {
		t.Errorf("a publisher of a closed adapter: %v", err)
	}
}

// B10: whoever waits in Publish is let go when the publisher closes.
func TestCloseLetsWaitersGo(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0") // accepts and says nothing
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	a, err := New(Config{Name: "b", Seeds: []string{l.Addr().String()}, Logger: testLogger(), Credentials: Credentials{Username: "u", Password: secret("p")}})
	if err != nil {
		t.Fatal(err)
	}
	p, err := a.Publisher(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	v := newVerdicts(t, 1)
	go p.Publish(context.Background(), to("e", "k"), []transport.Message{message("", "{}")}, v.done)
	brokertest.Eventually(t, patience, "the message waits", func() bool { return len(p.(*Publisher).tokens) == 1 })
	began := time.Now()
	_ = p.Close(t.Context())
	_ = a.Close(t.Context())
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("closing took %v", took)
	}
	want(t, v.wait(patience)[0], messaging.Rejected, messaging.CodeClosed, messaging.NotTransmitted)
}
