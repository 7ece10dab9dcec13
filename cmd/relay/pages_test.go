package main

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/backend-skeleton/relay/internal/brokertest"
)

// page reads one page of a running relay.
func page(t *testing.T, address, path string) (status int, body string) {
	t.Helper()
	answer, err := http.Get("http://" + address + path)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, string(text)
}

// TestPagesTellEachDestinationApart: one destination flows, the other's exchange has gone, and a row names a
// destination that no file knows. Tier: make test; it needs PostgreSQL, Kafka and RabbitMQ.
func TestPagesTellEachDestinationApart(t *testing.T) {
	t.Parallel()
	p := newPlant(t)
	r := start(t, p.env, "run", "--config", p.file(t))
	address := r.address(t)
	brokertest.Eventually(t, 20*time.Second, "the relay is ready", func() bool {
		status, _ := page(t, address, "/readyz")
		return status == http.StatusOK
	})
	p.vhost.Call(t, http.MethodDelete, "exchanges/"+p.vhost.Name+"/work", nil)
	p.add(t, "order-events", 30)
	p.add(t, "email-work", 20)
	p.add(t, "s3cret", 1)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the relay wrote:\n%s", r.stderr)
		}
	})

	type destination struct {
		Name, State, Reason string
		Counts              struct{ Pending, Published int64 }
	}
	found := map[string]destination{}
	brokertest.Eventually(t, 30*time.Second, "the outbox page shows one destination drained and the other stopped", func() bool {
		var body struct{ Destinations []destination }
		status, text := page(t, address, "/actuator/messaging/outbox")
		if status != http.StatusOK || json.Unmarshal([]byte(text), &body) != nil {
			return false
		}
		for _, d := range body.Destinations {
			found[d.Name] = d
		}
		drained, stopped := found["order-events"], found["email-work"]
		return drained.Counts.Published == 30 && drained.Counts.Pending == 0 && // counted apart: rows may move meanwhile
			stopped.State == "BREAKER_OPEN" && stopped.Counts.Pending == 20
	})
	if d := found["email-work"]; d.Reason != "UNKNOWN_EXCHANGE" {
		t.Errorf("email-work: %+v", d)
	}
	if d := found["order-events"]; d.State != "RUNNING" {
		t.Errorf("order-events: %+v", d)
	}
	if d := found["unknown"]; d.State != "UNSERVED" || d.Counts.Pending != 1 {
		t.Errorf("unknown: %+v", d)
	}

	var ready struct {
		Ready        bool
		Destinations []struct {
			Name, Reason, Since string
			Ready               bool
		}
	}
	status, text := page(t, address, "/readyz")
	if err := json.Unmarshal([]byte(text), &ready); err != nil || status != http.StatusOK || !ready.Ready || len(ready.Destinations) != 2 {
		t.Fatalf("readiness: %d %s", status, text)
	}
	for _, d := range ready.Destinations {
		if want := d.Name == "order-events"; d.Ready != want || !want && (d.Reason != "UNKNOWN_EXCHANGE" || d.Since == "") {
			t.Errorf("readiness of %+v", d)
		}
	}

	_, metrics := page(t, address, "/metrics")
	for _, want := range []string{
		`relay_outbox_rows{destination="email-work",status="PENDING"} 20`,
		`relay_outbox_outcomes_total{category="NONE",destination="order-events",outcome="CONFIRMED"} 30`,
		`messaging_publish_messages_total{destination="order-events",outcome="CONFIRMED"} 30`,
		`messaging_publish_confirm_seconds_count{destination="order-events"} 30`,
		`destination="email-work",state="OPEN"} 1`,
	} {
		if !strings.Contains(metrics, want) {
			t.Errorf("metrics lack %s", want)
		}
	}
	for _, path := range []string{"/actuator/messaging", "/actuator/messaging/outbox", "/readyz", "/info", "/metrics"} {
		if _, text := page(t, address, path); strings.Contains(text, "s3cret") {
			t.Errorf("%s shows what a writer put into a row", path)
		}
	}
	if strings.Contains(r.stderr.String(), "s3cret") {
		t.Error("the log shows what a writer put into a row")
	}
	r.signal(t, syscall.SIGTERM)
	if code := r.wait(t, 15*time.Second); code != 0 {
		t.Errorf("exit code %d", code)
	}
}
