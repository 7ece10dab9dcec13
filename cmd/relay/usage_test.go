package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/backend-skeleton/relay/internal/cli"
)

func TestUsageErrorsExitWith2(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{
		{},
		{"rum"},
		{"--nope"},
		{"run", "--nope"},
		{"run", "extra"},
		{"run"},
		{"run", "--timeout", "soon", "--config", "x"},
		{"check"},
		{"config"},
		{"config", "chek"},
		{"config", "check"},
		{"migrate"},
		{"migrate", "sideways"},
		{"migrate", "up", "now"},
		{"migrate", "down", "--to", "-3"},
		{"migrate", "status", "-o", "yaml"},
		{"version", "x"},
	} {
		r := relay(t, nil, args...)
		r.Want(t, 2, "relay: ", "--help' for usage.")
		if r.Stdout != "" {
			t.Errorf("%q prints to standard output: %s", args, r.Stdout)
		}
	}
	relay(t, nil, "rum").Want(t, 2, "did you mean run?")
}

func TestVersion(t *testing.T) {
	t.Parallel()
	relay(t, nil, "version").Want(t, 0, "github.com/backend-skeleton/relay ", " go1.")
	var b cli.BuildInfo
	if err := json.Unmarshal([]byte(relay(t, nil, "version", "-o", "json").Stdout), &b); err != nil || b.Module == "" || b.Version == "" || b.Go == "" {
		t.Errorf("%+v, %v", b, err)
	}
}

// Every command says what it does, and every one with an exit code of its own says which.
func TestHelpIsComplete(t *testing.T) {
	t.Parallel()
	var walk func(cmd *cobra.Command)
	walk = func(cmd *cobra.Command) {
		if cmd.Short == "" || len(cmd.Long) < 60 {
			t.Errorf("%s has no help", cmd.CommandPath())
		}
		for _, c := range cmd.Commands() {
			if !c.Hidden { // for this program alone
				walk(c)
			}
		}
	}
	root := newRoot()
	walk(root)
	relay(t, nil, "--help").Want(t, 0, "Exit codes:", "migrate", "run", "check", "config", "version")
	relay(t, nil, "run", "--help").Want(t, 0, "--config", "--until-empty", "--timeout")
}

func TestConfigCheck(t *testing.T) {
	t.Parallel()
	samples, err := filepath.Glob("../../examples/config/*.yaml")
	if err != nil || len(samples) < 4 {
		t.Fatalf("%q, %v", samples, err)
	}
	for _, name := range samples {
		relay(t, nil, "config", "check", "--config", name).Want(t, 0, "is accepted")
	}
	relay(t, []string{"RELAY_CONFIG=" + samples[0], "RELAY_PORT=tcp://10.0.0.1:80"}, "config", "check").Want(t, 0, "is accepted", "warning: environment variable RELAY_PORT matches no setting")
	relay(t, []string{"RELAY_RELAY_LEASE=0s"}, "config", "check", "--config", samples[0]).Want(t, 3, "relay.lease (RELAY_RELAY_LEASE): \"0s\" must be more than 0")
	relay(t, nil, "config", "check", "--config", "absent.yaml").Want(t, 3, "no such file")
	relay(t, nil, "config", "check", "--config", file(t, "messaging:\n  environment: local\n  brokers: a: b\n")).Want(t, 3, "the file (line 3): broken YAML")
	relay(t, nil, "config", "explain", "--config", samples[0]).Want(t, 0, "messaging.environment", "line ")
}

func TestConfigSchemaIsTheCommittedOne(t *testing.T) {
	t.Parallel()
	want, err := os.ReadFile("../../internal/config/relay.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	if r := relay(t, nil, "config", "schema"); r.Stdout != string(want) {
		t.Error("another schema is printed")
	}
}

// Failure case C38, at the program's face: all findings in one run, and an exit code that is not 0.
func TestC38_ConfigCheckListsEveryFinding(t *testing.T) {
	t.Parallel()
	r := relay(t, nil, "config", "check", "--config", file(t, `messaging:
  environment: local
  brokers: {k: {kind: kafka, seeds: ["k:9092"]}, r: {kind: rabbitmq, seeds: ["r:5672"], producer-identity: p}}
  destinations:
    a: {broker: k, kind: EVENT_STREAM, physical: {topic: t}, producer: {confirmation: BROKER_ACK}, payload: {max-bytes: 8388609}}
    b: {broker: r, kind: WORK_QUEUE, physical: {exchange: e, routing-key: k, queue: q}, producer: {confirmation: BROKER_ACK}}
  consumers:
    c: {destination: b, prefetch: 0, concurrency: 0, handler-timeout: "30", retry: {max-attempts: 0, max-atempts: 5, multiplier: .nan}}
    d: {destination: b, prefetch: -1, handler-timeout: 300y}
relay: {lease: 30s, lease: 40s, attempts: -1}
security: {credentials: {p: {mechanism: PLAIN, username: u, password: "env:P"}}}
`))
	want := []string{
		"payload.max-bytes (line 5)", "c.prefetch (line 8)", "c.concurrency (line 8)", "c.handler-timeout (line 8)", "c.retry.max-attempts (line 8)",
		"c.retry.max-atempts (line 8)", "c.retry.multiplier (line 8)", "d.prefetch (line 9)", "d.handler-timeout (line 9)", "relay.lease (line 10)", "relay.attempts (line 10)",
	}
	r.Want(t, 3, append(want, "11 findings")...)
	if n := strings.Count(r.Stderr, "(line "); n != len(want) {
		t.Errorf("%d findings, want %d:\n%s", n, len(want), r.Stderr)
	}
}
