package platform_test

import (
	"syscall"
	"testing"
	"time"

	"github.com/backend-skeleton/relay/messaging/platform"
)

func TestASignalEndsTheContext(t *testing.T) {
	ctx, stop := platform.Signals(t.Context())
	defer stop()
	if err := syscall.Kill(syscall.Getpid(), syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	select {
	case <-ctx.Done():
	case <-time.After(20 * time.Second):
		t.Fatal("the context goes on")
	}
	stop()
	stop() // twice is no harm
}
