package platform_test

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/backend-skeleton/relay/messaging"
	"github.com/backend-skeleton/relay/messaging/platform"
)

// In production a constructor waits for the broker and says so; the start's context bounds it.
func TestProductionWaitsForTheProof(t *testing.T) {
	t.Parallel()
	text := edit(t, local, "environment: local", "environment: staging")
	text = edit(t, text, `seeds: ["memory:1"]`, `seeds: ["memory:1"], tls: {}, producer-identity: p`) +
		"  catalogue: {order.created: {kind: COMMAND, versions: [1]}}\nsecurity: {credentials: {p: {mechanism: PLAIN, username: u, password: \"env:P\"}}}\n"
	name := file(t, text)
	synctest.Test(t, func(t *testing.T) {
		d := newDesk()
		d.err = messaging.ErrBrokerUnavailable
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		p, err := platform.Open(ctx, platform.Options{File: name, Env: []string{"P=x"}, Producer: "orders", Logger: slog.New(slog.DiscardHandler), Adapters: map[string]platform.NewAdapter{"memory": d.make}})
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			<-time.After(time.Minute) // virtual time
			d.mu.Lock()
			defer d.mu.Unlock()
			d.err = nil
		}()
		start := time.Now()
		if _, err := platform.NewPublisher(p, created); err != nil || time.Since(start) < time.Minute {
			t.Errorf("%v after %v", err, time.Since(start))
		}
		d.mu.Lock()
		d.err = messaging.ErrBrokerUnavailable
		d.mu.Unlock()
		if _, err := platform.NewPublisher(p, messaging.Destination[order]{Name: "email-work", Type: "order.created", Version: 1}); !errors.Is(err, messaging.ErrBrokerUnavailable) {
			t.Errorf("after the start's end: %v", err)
		}
		if err := p.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// A weak confirmation stops the destination until the broker proves the level again.
func TestTheProofIsRenewed(t *testing.T) {
	t.Parallel()
	name := file(t, local)
	synctest.Test(t, func(t *testing.T) {
		d := newDesk()
		p, err := platform.Open(t.Context(), platform.Options{File: name, Env: []string{}, Producer: "orders", Logger: slog.New(slog.DiscardHandler), Adapters: map[string]platform.NewAdapter{"memory": d.make}})
		if err != nil {
			t.Fatal(err)
		}
		publisher, err := platform.NewPublisher(p, created)
		if err != nil {
			t.Fatal(err)
		}
		d.mu.Lock()
		d.level = messaging.LevelBrokerAck
		d.mu.Unlock()
		if r, err := publisher.Publish(t.Context(), created.New(order{}), nil); r.Completion != messaging.Confirmed || !errors.Is(err, messaging.ErrConfiguration) {
			t.Errorf("%+v, %v", r, err)
		}
		if _, err := publisher.Publish(t.Context(), created.New(order{}), nil); !errors.Is(err, messaging.ErrPublishRejected) {
			t.Errorf("%v", err)
		}
		rec := httptest.NewRecorder()
		p.Handler().ServeHTTP(rec, httptest.NewRequest(http.MethodGet, "/readyz", nil))
		if !strings.Contains(rec.Body.String(), "PROOF_LOST") {
			t.Errorf("%s", rec.Body)
		}
		d.mu.Lock()
		d.level = messaging.LevelReplicationOrPersistenceAck
		d.mu.Unlock()
		<-time.After(time.Minute) // virtual time
		if _, err := publisher.Publish(t.Context(), created.New(order{}), nil); err != nil {
			t.Errorf("after the proof: %v", err)
		}
		if err := p.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}
