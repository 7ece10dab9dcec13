package config

import (
	"fmt"
	"strings"
	"testing"
)

// Failure case C38: no number means "unlimited"; zero, negative, overflowing, unit-less and mistyped values are all
// refused in one run, each with path, value and range.
func TestC38_ZeroNegativeUnitlessAndMistypedValuesAreRefusedInOneRun(t *testing.T) {
	t.Parallel()
	const text = `messaging:
  environment: local
  brokers:
    rabbit: {kind: rabbitmq, seeds: ["r:5672"], tls: {enabled: yes}, producer-identity: g}
  destinations:
    a: {broker: rabbit, kind: WORK_QUEUE, physical: {exchange: e, routing-key: k, queue: q}, producer: {confirmation: BROKER_ACK},
        payload: {max-bytes: 8388609, reason: r}, outbox: {attempts: 0}}
    b: {broker: rabbit, kind: WORK_QUEUE, physical: {exchange: e, routing-key: k, queue: q}, producer: {confirmation: BROKER_ACK, timeout: 0s}}
  consumers:
    c0: {destination: a, prefetch: 0}
    c1: {destination: a, prefetch: -1}
    c2: {destination: a, prefetch: 65536}
    c3: {destination: a, retry: {max-attempts: 0}}
    c4: {destination: a, retry: {max-attempts: -1}}
    c5: {destination: a, retry: {max-attempts: 10000}}
    c6: {destination: a, concurrency: 0}
    c7: {destination: a, handler-timeout: 0s}
    c8: {destination: a, handler-timeout: "30"}
    c9: {destination: a, handler-timeout: "-1s"}
    d0: {destination: a, handler-timeout: "300y"}
    d1: {destination: a, retry: {initial-delay: 5s, max-delay: 1s}}
    d2: {destination: a, retry: {multiplier: 0.5}}
    d3: {destination: a, retry: {multiplier: .nan}}
    d4: {destination: a, retry: {max-atempts: 5}}
    d5: {destination: a, concurrency: 2, concurrency: 3}
    d6: {destination: a, prefetch: 99999999999999999999}
    d7: {destination: a, retry: {multiplier: .inf}}
    d8: {destination: a, handler-timeout: 30}
    d9: {destination: a, handler-timeout: 1000000000h}
relay: {attempts: -1, batch: 0, poll: 500}
security: {credentials: {g: {mechanism: PLAIN, username: g, password: "env:P"}}}
`
	want := []string{
		`messaging.brokers.rabbit.tls.enabled (line 4): "yes" is not a boolean; write true or false`,
		`messaging.destinations.a.payload.max-bytes (line 7): "8388609" is out of range (1B to 8MiB)`,
		`messaging.destinations.a.outbox.attempts (line 7): "0" is out of range (1 to 2147483647)`,
		`messaging.destinations.b.producer.timeout (line 8): "0s" must be more than 0`,
		`messaging.consumers.c0.prefetch (line 10): "0" is out of range (1 to 65535)`,
		`messaging.consumers.c1.prefetch (line 11): "-1" is out of range (1 to 65535)`,
		`messaging.consumers.c2.prefetch (line 12): "65536" is out of range (1 to 65535)`,
		`messaging.consumers.c3.retry.max-attempts (line 13): "0" is out of range (1 to 1000)`,
		`messaging.consumers.c4.retry.max-attempts (line 14): "-1" is out of range (1 to 1000)`,
		`messaging.consumers.c5.retry.max-attempts (line 15): "10000" is out of range (1 to 1000)`,
		`messaging.consumers.c6.concurrency (line 16): "0" is out of range (1 to 10000)`,
		`messaging.consumers.c7.handler-timeout (line 17): "0s" must be more than 0; no duration means "never" or "for ever" (1ms to 1d)`,
		`messaging.consumers.c8.handler-timeout (line 18): "30" has no unit; write a duration such as 500ms, 30s, 5m or 7d (1ms to 1d)`,
		`messaging.consumers.c9.handler-timeout (line 19): "-1s" must be more than 0`,
		`messaging.consumers.d0.handler-timeout (line 20): "300y" is not a duration`,
		`messaging.consumers.d1.retry.initial-delay (line 21): 5s is more than max-delay (1s)`,
		`messaging.consumers.d2.retry.multiplier (line 22): "0.5" is out of range (1 to 10)`,
		`messaging.consumers.d3.retry.multiplier (line 23): ".nan" is not a number (1 to 10)`,
		`messaging.consumers.d4.retry.max-atempts (line 24): is not a known key; did you mean max-attempts?`,
		`messaging.consumers.d5.concurrency (line 25): is written twice, first on line 25`,
		`messaging.consumers.d6.prefetch (line 26): "99999999999999999999" is not a whole number (1 to 65535)`,
		`messaging.consumers.d7.retry.multiplier (line 27): ".inf" is not a number (1 to 10)`,
		`messaging.consumers.d8.handler-timeout (line 28): "30" has no unit`,
		`messaging.consumers.d9.handler-timeout (line 29): "1000000000h" is not a duration`,
		`relay.attempts (line 30): "-1" is out of range (1 to 2147483647)`,
		`relay.batch (line 30): "0" is out of range (1 to 1000)`,
		`relay.poll (line 30): "500" has no unit; write a duration such as 500ms, 30s, 5m or 7d (10ms to 1m)`,
	}
	_, _, findings := load(t, text)
	var got []string
	for _, f := range findings {
		got = append(got, f.String())
	}
	if len(got) != len(want) {
		t.Errorf("%d findings, want %d:\n%s", len(got), len(want), strings.Join(got, "\n"))
	}
	for _, w := range want {
		if !anyContains(got, w) {
			t.Errorf("no finding %s in\n%s", w, strings.Join(got, "\n"))
		}
	}
}

func TestC38_OneAttemptIsAccepted(t *testing.T) {
	t.Parallel()
	text := edited(t, local, "messaging/consumers/order-projection/retry = {mode: NONE, max-attempts: 1}")
	c, _, findings := load(t, text)
	if findings != nil {
		t.Fatal(findings)
	}
	if n := *c.Messaging.Consumers["order-projection"].Retry.MaxAttempts; n != 1 {
		t.Errorf("max-attempts %d", n)
	}
}

// Broken YAML names line and rule, and quotes nothing of the file.
func TestBrokenFiles(t *testing.T) {
	t.Parallel()
	deep := strings.Repeat("a: {", 200) + strings.Repeat("}", 200)
	bomb := "messaging: {environment: local}\nx0: &x0 [a, a, a, a, a, a, a, a, a, a]\n"
	for i := 1; i < 9; i++ {
		bomb += fmt.Sprintf("x%d: &x%d [%s]\n", i, i, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*x%d, ", i-1), 10), ", "))
	}
	bomb += "relay: {serve: *x8}\n"
	for name, c := range map[string]struct {
		text, want string
	}{
		"colon in a value":    {"messaging:\n  environment: local\n  brokers: a: b\n", "the file (line 3): broken YAML: mapping values are not allowed"},
		"tab":                 {"messaging:\n\tenvironment: local\n", "broken YAML: found character that cannot start any token"},
		"open bracket":        {"relay:\n  serve: [a, b\n", "broken YAML"},
		"unknown alias":       {"database: {url: *S3cr3t}\n", "broken YAML: an alias without anchor"},
		"open quote":          {"database: {url: \"S3cr3t\n", "broken YAML"},
		"two documents":       {local + "---\nrelay: {}\n", "a second YAML document"},
		"broken second":       {local + "---\na: b: c\n", "broken YAML"},
		"a list":              {"- a\n- b\n", "the file (line 1): must be a mapping of settings"},
		"nothing":             {"", "messaging.environment: is missing"},
		"comments alone":      {"# relay\n", "messaging.environment: is missing"},
		"null":                {"messaging:\n", "messaging.environment (line 1): is missing"},
		"merge key":           {"relay: &r {lease: 30s}\nmessaging:\n  environment: local\n  <<: *r\n", "merge keys (<<) are not supported"},
		"binary key":          {"? [a, b]\n: c\n", "a key must be a plain name"},
		"address as a key":    {"messaging:\n  environment: local\n  brokers:\n    \"amqp://u:S3cr3t@h\": {kind: kafka, seeds: [\"k:1\"]}\n", "[not shown]"},
		"deep":                {deep, "is not a known key"},
		"alias bomb":          {bomb, "is not a known key"},
		"not UTF-8":           {"messaging: {environment: \"\xff\"}\n", "broken YAML"},
		"cycle by alias":      {"messaging: {environment: local}\nrelay: &r {retention: *r}\n", "relay.retention.retention"},
		"twice at the top":    {"relay: {lease: 10s}\nmessaging: {environment: local}\nrelay: {lease: 20s}\n", "relay (line 3): is written twice, first on line 1"},
		"twice inside a name": {"messaging:\n  environment: local\n  destinations:\n    a: {}\n    a: {}\n", "messaging.destinations.a (line 5): is written twice, first on line 4"},
	} {
		_, _, findings := load(t, c.text)
		var all []string
		for _, f := range findings {
			all = append(all, f.String())
		}
		if !anyContains(all, c.want) {
			t.Errorf("%s: no %q in\n%s", name, c.want, strings.Join(all, "\n"))
		}
		if anyContains(all, "S3cr3t") {
			t.Errorf("%s: shows a secret: %q", name, all)
		}
	}
}
