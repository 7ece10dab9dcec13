package kafka

import (
	"fmt"
	"time"

	"github.com/backend-skeleton/relay/messaging"
	"github.com/backend-skeleton/relay/messaging/transport"
)

// settings are one destination's part for this adapter, read from the endpoint.
type settings struct {
	topic string
	// timeout is how long a caller waits for a verdict. Default 5 s.
	timeout time.Duration
	// request is how long a broker may wait for its in-sync replicas. Default 2 s,
	// at most timeout.
	request time.Duration
	// delivery is how long a write, the first or another of an unanswered batch, may
	// begin, counted from Publish. Default timeout: then nothing is written after the
	// caller's verdict, whose lease may be another's soon.
	delivery time.Duration
	// abandon is when an unresolved batch is given up whatever it waits for, its
	// connection closed and its partition's session renewed. Default 60 s, at least
	// delivery.
	abandon time.Duration
}

// timeoutMargin is how far the publish timeout may exceed the delivery timeout.
const timeoutMargin = time.Second

func settingsOf(e transport.Endpoint) (settings, error) {
	var s settings
	fail := func(text string) (settings, error) {
		return settings{}, &messaging.Error{Op: "kafka endpoint", Kind: messaging.ErrConfiguration, Destination: e.Name, Cause: fmt.Errorf("%s", text)}
	}
	s.topic = e.Physical["topic"]
	if s.topic == "" {
		return fail("physical.topic is missing")
	}
	for name, into := range map[string]*time.Duration{
		"timeout": &s.timeout, "request-timeout": &s.request, "delivery-timeout": &s.delivery, "abandon-after": &s.abandon,
	} {
		switch v := e.Producer[name].(type) {
		case nil:
		case time.Duration:
			if v <= 0 {
				return fail("producer." + name + " is not above zero")
			}
			*into = v
		default:
			return fail("producer." + name + " is not a duration")
		}
	}
	setDefault(&s.timeout, 5*time.Second)
	setDefault(&s.request, min(2*time.Second, s.timeout))
	setDefault(&s.delivery, s.timeout)
	setDefault(&s.abandon, max(time.Minute, s.delivery))
	switch {
	case s.request > s.timeout:
		return fail("producer.request-timeout is longer than producer.timeout")
	case s.timeout > s.delivery+timeoutMargin:
		return fail("producer.timeout is longer than producer.delivery-timeout")
	case s.abandon < s.delivery:
		return fail("producer.abandon-after is shorter than producer.delivery-timeout")
	}
	return s, nil
}
