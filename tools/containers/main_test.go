package main

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
)

// TestNamesAreThoseOfTheScripts: a test sees no difference between containers and local servers.
func TestNamesAreThoseOfTheScripts(t *testing.T) {
	t.Parallel()
	var vars []string
	for _, s := range servers() {
		host := map[string]int{}
		for i, p := range s.ports {
			host[p] = 20000 + i
		}
		for _, l := range s.lines(host) {
			name, value, ok := strings.Cut(l, "=")
			if !ok || !strings.HasPrefix(value, "'") || !strings.HasSuffix(value, "'") {
				t.Errorf("line %q is not VAR='value'", l)
			}
			vars = append(vars, name)
		}
	}
	want := []string{"PG_URL_16", "PG_URL_17", "PG_URL_18", "KAFKA_BOOTSTRAP", "KAFKA_BOOTSTRAP_1",
		"KAFKA42_BOOTSTRAP", "KAFKA42_BOOTSTRAP_1", "RABBITMQ_URL_1", "RABBITMQ_API_1"}
	if !slices.Equal(vars, want) {
		t.Errorf("variables %v, want %v", vars, want)
	}
}

func TestUsage(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{nil, {"pause"}, {"start", "oracle"}} {
		if err := run(t.Context(), args, &bytes.Buffer{}); !errors.Is(err, errUsage) {
			t.Errorf("containers %v: %v, want the usage", args, err)
		}
	}
}

// TestStart starts a container, where a daemon answers; elsewhere it shows that the command says so.
func TestStart(t *testing.T) {
	var out bytes.Buffer
	err := run(t.Context(), []string{"start", "pg17"}, &out)
	if errors.Is(err, errNoDocker) {
		t.Skipf("%v; missing proof: the containers start", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := stopAll(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	if !strings.HasPrefix(out.String(), "PG_URL_17='postgres://") {
		t.Errorf("printed %q", out.String())
	}
}
