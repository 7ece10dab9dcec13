package cli

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// A database that is away is asked by all who want a connection as one, with growing pauses; those who come between are told
// what the last attempt met, and nobody is held up once it is back.
func TestADatabaseThatIsAwayIsAskedByOneForAll(t *testing.T) {
	t.Parallel()
	refused := errors.New("refused")
	var dials atomic.Int32
	c, err := pgx.ParseConfig("postgres://u@127.0.0.1:1/d?sslmode=disable")
	if err != nil {
		t.Fatal(err)
	}
	c.DialFunc = func(context.Context, string, string) (net.Conn, error) {
		dials.Add(1)
		return nil, refused
	}
	r := &reconnects{}
	r.share(c)
	if _, err := pgx.ConnectConfig(t.Context(), c); !errors.Is(err, refused) || errors.Is(err, ErrAskedLately) {
		t.Fatalf("the first attempt ends with %v", err)
	}
	first := dials.Load()
	for range 20 {
		if _, err := pgx.ConnectConfig(t.Context(), c); !errors.Is(err, refused) || !errors.Is(err, ErrAskedLately) {
			t.Fatalf("an attempt right after a failed one ends with %v", err)
		}
	}
	if n := dials.Load(); n != first {
		t.Errorf("%d dials within the pause", n-first)
	}
	for range 10 { // each as soon as it may
		r.mu.Lock()
		r.next = time.Time{}
		r.mu.Unlock()
		if _, err := pgx.ConnectConfig(t.Context(), c); errors.Is(err, ErrAskedLately) {
			t.Fatal("an attempt after the pause was not made")
		}
	}
	if p := r.pause(); p != lastReconnect {
		t.Errorf("after many failures the pause is %v, want %v", p, lastReconnect)
	}
	r.TraceConnectEnd(t.Context(), pgx.TraceConnectEndData{}) // it is back
	if r.TraceConnectStart(t.Context(), pgx.TraceConnectStartData{}).Value(refusalKey{}) != nil {
		t.Error("an attempt is refused though the last one succeeded")
	}
}
