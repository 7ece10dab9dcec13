package client_test

import (
	"context"
	"testing"
	"time"

	"github.com/backend-skeleton/relay/client"
	"github.com/backend-skeleton/relay/internal/dbtest"
	"github.com/backend-skeleton/relay/messaging"
)

type order struct {
	ID   int    `json:"id"`
	Text string `json:"text,omitempty"`
}

var created = messaging.Destination[order]{Name: "order-events", Type: "order.created", Version: 1}

// profiles is a fixed set of profiles.
type profiles map[messaging.DestinationName]messaging.Profile

func (p profiles) Profile(d messaging.DestinationName) (messaging.Profile, bool) {
	profile, known := p[d]
	return profile, known
}

func newClient(t testing.TB, c client.Config) *client.Client {
	t.Helper()
	if c.Producer == "" {
		c.Producer = "shop"
	}
	made, err := client.New(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(made.Close)
	return made
}

func newOutbox[T any](t testing.TB, c *client.Client, d messaging.Destination[T]) *client.Outbox[T] {
	t.Helper()
	o, err := client.NewOutbox(c, d)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func one[T any](t testing.TB, db *dbtest.DB, query string, args ...any) T {
	t.Helper()
	var v T
	if err := db.QueryRow(context.Background(), query, args...).Scan(&v); err != nil {
		t.Fatalf("%v\nin %s", err, query)
	}
	return v
}

// eventually waits until the condition holds.
func eventually(t testing.TB, what string, condition func() bool) {
	t.Helper()
	poll := time.NewTicker(2 * time.Millisecond)
	defer poll.Stop()
	deadline := time.After(10 * time.Second)
	for !condition() {
		select {
		case <-poll.C:
		case <-deadline:
			t.Fatalf("not in time: %s", what)
		}
	}
}
