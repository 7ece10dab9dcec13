package platform_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/backend-skeleton/relay/messaging"
	"github.com/backend-skeleton/relay/messaging/platform"
)

// The end: publishes that are open are waited for, later ones refused, connections closed last.
func TestRunDrains(t *testing.T) {
	t.Parallel()
	d := newDesk()
	d.hold = make(chan struct{})
	p := open(t, d, local)
	publisher, err := platform.NewPublisher(p, created)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- p.Run(ctx) }()
	verdict := make(chan error, 1)
	publisher.PublishAsync(t.Context(), created.New(order{}), nil, func(_ messaging.PublishResult, err error) { verdict <- err })
	stop()
	eventually(t, func() bool {
		_, err := publisher.Publish(t.Context(), created.New(order{}), &messaging.PublishOptions{Timeout: time.Millisecond})
		return errors.Is(err, messaging.ErrClosed)
	})
	close(d.hold)
	if err := <-verdict; err != nil {
		t.Errorf("what was open: %v", err)
	}
	if err := <-ended; err != nil || !slices.Equal(d.closed, []string{"publisher", "adapter"}) {
		t.Errorf("%v, %v", err, d.closed)
	}
	if err := p.Run(t.Context()); !errors.Is(err, messaging.ErrClosed) {
		t.Errorf("a second run: %v", err)
	}
}

func eventually(t *testing.T, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !ok(); {
		if time.Now().After(deadline) {
			t.Fatal("it did not happen")
		}
		<-time.After(time.Millisecond) // between two looks
	}
}
