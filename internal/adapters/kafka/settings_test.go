package kafka

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/backend-skeleton/relay/messaging"
	"github.com/backend-skeleton/relay/messaging/transport"
)

func TestSettings(t *testing.T) {
	t.Parallel()
	s, err := settingsOf(transport.Endpoint{Physical: map[string]string{"topic": "t"}})
	if err != nil || s.timeout != 5*time.Second || s.request != 2*time.Second || s.delivery != 5*time.Second || s.abandon != time.Minute {
		t.Errorf("defaults: %+v, %v", s, err)
	}
	s, err = settingsOf(endpoint("t", "timeout", time.Second))
	if err != nil || s.request != time.Second {
		t.Errorf("a short timeout: %+v, %v", s, err)
	}
	for want, e := range map[string][]any{
		"physical.topic is missing":                                 nil,
		"producer.request-timeout is longer than producer.timeout":  {"timeout", time.Second, "request-timeout", 2 * time.Second},
		"producer.timeout is longer than producer.delivery-timeout": {"timeout", 5 * time.Second, "delivery-timeout", 3 * time.Second},
		"producer.abandon-after is shorter":                         {"abandon-after", 3 * time.Second},
		"producer.timeout is not a duration":                        {"timeout", "5s"},
		"producer.delivery-timeout is not above zero":               {"delivery-timeout", -time.Second},
	} {
		topic := "t"
		if e == nil {
			topic = ""
		}
		_, err := settingsOf(endpoint(topic, e...))
		if err == nil || !strings.Contains(err.Error(), want) || !errors.Is(err, messaging.ErrConfiguration) {
			t.Errorf("%v: error %v, want %q", e, err, want)
		}
	}
}

func TestNewNamesEveryFinding(t *testing.T) {
	t.Parallel()
	_, err := New(Config{Seeds: []string{"nowhere"}, Credentials: Credentials{Mechanism: "GSSAPI"}, ProducerInFlight: -1})
	if !errors.Is(err, messaging.ErrConfiguration) {
		t.Fatalf("error %v", err)
	}
	for _, want := range []string{"seeds[0]", "mechanism", "user name", "password", "in-flight"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in: %v", want, err)
		}
	}
}
