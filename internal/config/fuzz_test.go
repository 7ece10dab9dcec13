package config

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Whatever stands in the file: no panic, an answer in bounded time, and either a configuration that is complete or
// findings that each have a message; a secret's marker is never shown.
func FuzzProfileYAML(f *testing.F) {
	f.Add(production)
	f.Add(local)
	samples, err := filepath.Glob("../../examples/config/*.yaml")
	if err != nil {
		f.Fatal(err)
	}
	for _, name := range samples {
		text, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(text))
	}
	for _, text := range []string{
		"", "null", "[]", "messaging: {environment: local}", "a: &a [*a]", "messaging: {environment: local, limits: {handlers: {value: 1e9}}}",
		"messaging: {environment: production, consumers: {c: {destination: d}}, destinations: {d: {broker: b, kind: COMMAND}}}",
		"relay: {serve: ['[']}", "? {a: b}\n: c", "security: {credentials: {c: {password: 'S3cr3t'}}}",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		lines := 2 // YAML breaks lines by more than \n
		for _, r := range text {
			if strings.ContainsRune("\n\r\u0085\u2028\u2029", r) {
				lines++
			}
		}
		c, _, err := parse(Options{File: "/etc/relay/relay.yaml"}, text, nil, lookupIn(nil))
		var refused *Error
		switch {
		case err == nil && c == nil:
			t.Fatal("no configuration and no finding")
		case err != nil && (c != nil || !errors.As(err, &refused) || len(refused.Findings) == 0):
			t.Fatalf("refused without findings: %v", err)
		case err != nil:
			for _, finding := range refused.Findings {
				if finding.Message == "" || finding.Line < 0 || finding.Line > lines {
					t.Fatalf("%+v", finding)
				}
			}
			return
		}
		// What is accepted can be used: every part that programs ask for resolves.
		for _, name := range c.Registered() {
			served, ok := c.Resolved(name)
			if !ok || served.Broker == "" || served.Timeout <= 0 || served.MaxBytes <= 0 || served.Attempts <= 0 {
				t.Fatalf("destination %q resolves to %+v", name, served)
			}
		}
		for name := range c.Messaging.Consumers {
			plan, ok := c.Consuming(name)
			if !ok || plan.Concurrency < 1 || plan.Retry.MaxAttempts < 1 || plan.Retry.Initial > plan.Retry.Max || plan.HandlerTimeout <= 0 || plan.Unhandled == "" {
				t.Fatalf("consumer %q resolves to %+v", name, plan)
			}
		}
		c.Explain()
	})
}
