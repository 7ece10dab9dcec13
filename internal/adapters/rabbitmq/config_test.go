package rabbitmq

import (
	"context"
	"crypto/tls"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/backend-skeleton/relay/messaging"
	"github.com/backend-skeleton/relay/messaging/transport"
)

func secret(text string) func(context.Context) (string, error) {
	return func(context.Context) (string, error) { return text, nil }
}

func TestNewNamesEveryBrokenRule(t *testing.T) {
	good := Config{Name: "b", Seeds: []string{"localhost"}, Credentials: Credentials{Username: "u", Password: secret("p")}}
	with := func(change func(*Config)) Config { c := good; change(&c); return c }
	cases := map[string]struct {
		config Config
		says   []string
	}{
		"complete":             {good, nil},
		"ipv6 with port":       {with(func(c *Config) { c.Seeds = []string{"[::1]:5672"} }), nil},
		"external":             {with(func(c *Config) { c.Credentials = Credentials{Mechanism: "EXTERNAL"}; c.TLS = &tls.Config{} }), nil},
		"nothing":              {Config{}, []string{"name is empty", "seeds are empty", "user name and password"}},
		"bad seed":             {with(func(c *Config) { c.Seeds = []string{"ok", ":5672"} }), []string{"seed 2"}},
		"mechanism":            {with(func(c *Config) { c.Credentials.Mechanism = "GSSAPI" }), []string{"PLAIN nor EXTERNAL"}},
		"external without tls": {with(func(c *Config) { c.Credentials.Mechanism = "EXTERNAL" }), []string{"EXTERNAL needs TLS"}},
		"management":           {with(func(c *Config) { c.Management.URL = "http://x" }), []string{"management needs"}},
		"heartbeat":            {with(func(c *Config) { c.Heartbeat = time.Millisecond }), []string{"heartbeat"}},
		"backoff":              {with(func(c *Config) { c.BackoffMax = time.Millisecond }), []string{"largest backoff"}},
		"limits":               {with(func(c *Config) { c.Channels = -1 }), []string{"must be positive"}},
		"negative":             {with(func(c *Config) { c.DialTimeout = -1 }), []string{"dial timeout is negative"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := New(c.config)
			if len(c.says) == 0 {
				if err != nil {
					t.Fatal(err)
				}
				return
			}
			if !errors.Is(err, messaging.ErrConfiguration) {
				t.Fatalf("got %v, want a configuration error", err)
			}
			for _, part := range c.says {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("%q does not say %q", err, part)
				}
			}
		})
	}
}

func TestSeedsGetTheDefaultPort(t *testing.T) {
	plain, secured := Config{}, Config{TLS: &tls.Config{}}
	for _, c := range []struct {
		config     *Config
		seed, want string
	}{
		{&plain, "host", "host:5672"},
		{&secured, "host", "host:5671"},
		{&plain, "host:1", "host:1"},
		{&plain, "::1", "[::1]:5672"},
		{&plain, "[::1]:9", "[::1]:9"},
	} {
		if got, err := c.config.address(c.seed); err != nil || got != c.want {
			t.Errorf("%s becomes %s (%v), want %s", c.seed, got, err, c.want)
		}
	}
}

func TestParseRoute(t *testing.T) {
	endpoint := func(physical map[string]string, producer map[string]any) transport.Endpoint {
		return transport.Endpoint{Name: "orders", Physical: physical, Producer: producer}
	}
	cases := map[string]struct {
		e    transport.Endpoint
		says string
		want route
	}{
		"defaults": {
			endpoint(map[string]string{"exchange": "e", "routing-key": "k", "queue": "q"}, nil), "",
			route{destination: "orders", exchange: "e", routingKey: "k", queue: "q", mandatory: true, abandonAfter: time.Minute},
		},
		"own keys, patience, not mandatory": {
			endpoint(map[string]string{"exchange": "e", "routing-key-from": "partition-key"},
				map[string]any{"mandatory-routing": false, "abandon-after": time.Second, "timeout": time.Second}), "",
			route{destination: "orders", exchange: "e", perMessage: true, abandonAfter: time.Second},
		},
		"default exchange":          {endpoint(map[string]string{"routing-key": "q"}, nil), "", route{destination: "orders", routingKey: "q", mandatory: true, abandonAfter: time.Minute}},
		"nothing":                   {endpoint(nil, nil), "both empty", route{}},
		"key from elsewhere":        {endpoint(map[string]string{"exchange": "e", "routing-key-from": "tenant"}, nil), "routing-key-from", route{}},
		"exchange too long":         {endpoint(map[string]string{"exchange": strings.Repeat("é", 128)}, nil), "256 bytes", route{}},
		"mandatory is no boolean":   {endpoint(map[string]string{"exchange": "e"}, map[string]any{"mandatory-routing": "yes"}), "mandatory-routing", route{}},
		"abandon-after is no time":  {endpoint(map[string]string{"exchange": "e"}, map[string]any{"abandon-after": 5}), "abandon-after", route{}},
		"abandon-after is negative": {endpoint(map[string]string{"exchange": "e"}, map[string]any{"abandon-after": -time.Second}), "abandon-after", route{}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := parseRoute(c.e)
			if c.says == "" {
				if err != nil || *got != c.want {
					t.Errorf("got %+v (%v), want %+v", got, err, c.want)
				}
				return
			}
			if !errors.Is(err, messaging.ErrConfiguration) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("got %v, want a configuration error that says %q", err, c.says)
			}
		})
	}
}

func TestPausesGrowToTheirLimit(t *testing.T) {
	p := pauses{initial: 100 * time.Millisecond, most: time.Second}
	for i, ms := range []int{100, 200, 400, 800, 1000, 1000} {
		most := time.Duration(ms) * time.Millisecond
		if got := p.next(); got < most/2 || got > most {
			t.Errorf("pause %d is %v, want %v to %v", i+1, got, most/2, most)
		}
	}
	p.reset()
	if got := p.next(); got > 100*time.Millisecond {
		t.Errorf("pause after a success is %v", got)
	}
}
