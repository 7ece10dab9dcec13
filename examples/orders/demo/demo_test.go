package main

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/backend-skeleton/relay/internal/testenv"
)

// TestDemo runs the whole demo, faster than a person would want to watch it. Tier: make test.
func TestDemo(t *testing.T) {
	testenv.Require(t, "PG_URL_17")
	testenv.Require(t, "KAFKA_BOOTSTRAP")
	testenv.Require(t, "RABBITMQ_URL_1")
	text := runDemo(t)
	for _, want := range []string{"email-work (RabbitMQ)", "an answer of RabbitMQ and one of Kafka was lost", "its actuator"} {
		if !strings.Contains(text, want) {
			t.Errorf("the demo did not say %q", want)
		}
	}
}

// TestDemoWithoutBrokers: an embedded broker stands in for Kafka, RabbitMQ's half is left out, and both are said.
func TestDemoWithoutBrokers(t *testing.T) {
	testenv.Require(t, "PG_URL_17")
	t.Setenv("KAFKA_BOOTSTRAP", "")
	t.Setenv("RABBITMQ_URL_1", "")
	t.Setenv("RABBITMQ_API_1", "")
	t.Setenv("TEST_SERVICES", "env") // start nothing
	text := runDemo(t)
	for _, want := range []string{"no Kafka broker: an embedded one", "no RabbitMQ: its half, the mail requests, is left out"} {
		if !strings.Contains(text, want) {
			t.Errorf("the demo did not say %q", want)
		}
	}
	if strings.Contains(text, "email-work (RabbitMQ)") {
		t.Error("the table has a column for what was left out")
	}
}

func runDemo(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	t.Chdir("../../..")
	t.Cleanup(func() { // a person looks around after a run, a test does not
		s := &services{postgres: os.Getenv("PG_URL_17"), kafka: os.Getenv("KAFKA_BOOTSTRAP"), rabbit: os.Getenv("RABBITMQ_URL_1")}
		if err := forget(context.WithoutCancel(t.Context()), dir, s); err != nil {
			t.Error(err)
		}
	})
	var out strings.Builder
	err := run(t.Context(), options{rate: 300, dir: dir, limit: 2 * time.Minute}, &out)
	t.Log(out.String())
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range strings.Split(out.String(), "\n") {
		if !strings.Contains(line, "ambiguous, then confirmed") {
			continue
		}
		felt := false // the killed relay may have had rows of either destination
		for _, column := range strings.Fields(line)[3:] {
			felt = felt || column != "0"
		}
		if !felt {
			t.Error("no doubt arose: the fault was not felt")
		}
	}
	return out.String()
}
