package main

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/backend-skeleton/relay/internal/config"
	"github.com/backend-skeleton/relay/internal/dbtest"
	"github.com/backend-skeleton/relay/internal/outbox"
	engine "github.com/backend-skeleton/relay/internal/relay"
)

// TestActuatorShowsTheRealOutbox: the pages and metrics of a process whose relay is not running yet, over a real table.
// Tier: make test; it needs PostgreSQL.
func TestActuatorShowsTheRealOutbox(t *testing.T) {
	t.Parallel()
	db := dbtest.New(t)
	store := outbox.New(db.Pool, outbox.Config{Name: "a", LeaseTTL: 10 * time.Second})
	if err := store.Register(t.Context(), []string{"orders"}); err != nil {
		t.Fatal(err)
	}
	_, err := db.Exec(t.Context(), `
		select messaging_outbox_add(d, 'order.created', 'shop', '"s3cret"', ordering_key => 's3cret') from unnest('{orders,orders,s3cret}'::text[]) as d`)
	if err != nil {
		t.Fatal(err)
	}
	r, err := engine.New(engine.Config{Store: store})
	if err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	c := &config.Config{}
	c.Messaging.Destinations = map[string]config.Destination{"orders": {Broker: "kafka-primary"}}
	o, err := newObserver(c, log)
	if err != nil {
		t.Fatal(err)
	}
	c.HTTP.Listen = "127.0.0.1:0"
	l, err := listenHTTP(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- serveHTTP(ctx, l, o, store, r, log) }()
	defer func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()

	status, body := get(t, l.Addr(), "/actuator/messaging/outbox")
	var page struct {
		Destinations []struct {
			Name, State string
			Counts      struct{ Pending int64 }
		}
	}
	if err := json.Unmarshal([]byte(body), &page); err != nil || status != http.StatusOK {
		t.Fatalf("%d %v", status, err)
	}
	if len(page.Destinations) != 2 || page.Destinations[0].Name != "unknown" || page.Destinations[0].Counts.Pending != 1 ||
		page.Destinations[1].Name != "orders" || page.Destinations[1].Counts.Pending != 2 || page.Destinations[1].State != "UNSERVED" {
		t.Errorf("outbox: %s", body)
	}
	_, metrics := get(t, l.Addr(), "/metrics")
	for _, want := range []string{
		`relay_outbox_rows{destination="orders",status="PENDING"} 2`, `relay_lanes{destination="orders",status="FREE"} 16`,
		`relay_breaker_state{broker="kafka-primary",destination="orders",state="CLOSED"} 1`, "go_goroutines", "relay_build_info",
	} {
		if !strings.Contains(metrics, want) {
			t.Errorf("metrics lack %s", want)
		}
	}
	if status, ready := get(t, l.Addr(), "/readyz"); status != http.StatusServiceUnavailable || !strings.Contains(ready, "no destination is served") {
		t.Errorf("readiness before the start: %d %s", status, ready)
	}
	for _, path := range []string{"/actuator/messaging", "/actuator/messaging/outbox", "/readyz", "/healthz", "/info", "/metrics"} {
		if _, text := get(t, l.Addr(), path); strings.Contains(text, "s3cret") {
			t.Errorf("%s shows what stands in a row", path)
		}
	}
}

func get(t *testing.T, addr net.Addr, path string) (status int, body string) {
	t.Helper()
	res, err := http.Get("http://" + addr.String() + path)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(text)
}

func TestATakenHTTPAddressIsRefusedBeforeTheStart(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c := &config.Config{}
	c.HTTP.Listen = l.Addr().String()
	if _, err := listenHTTP(t.Context(), c); err == nil || !strings.Contains(err.Error(), "http.listen") {
		t.Errorf("error %v", err)
	}
}
