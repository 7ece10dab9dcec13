// Package model_test runs the exhaustive search of the outbox model.
package model_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/backend-skeleton/relay/internal/testenv"
)

// cannotBeHad is the script's exit code where spin or a C compiler is missing and may not be installed.
const cannotBeHad = 3

// TestModel searches every state of the model and shows that each planted fault breaks it. It needs spin and gcc, which
// the script installs where it runs as root on Debian.
func TestModel(t *testing.T) {
	t.Parallel()
	search(t)
}

// TestModelDeep lets a statement run late over one owner more. Tier: full, for its minutes.
func TestModelDeep(t *testing.T) {
	testenv.FullTier(t)
	search(t, "deep") // not beside the other: each takes a gigabyte
}

func search(t *testing.T, args ...string) {
	t.Helper()
	for _, f := range []string{"relay.pml", "run.sh"} { // read here, so that the go command runs the test again when one changes
		if _, err := os.ReadFile(f); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "./run.sh", args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) } // and the searches that it started
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit) && exit.ExitCode() == cannotBeHad && os.Getenv("REQUIRE_SERVICES") != "1":
		t.Skipf("not proved here: the search of all states of two relays and a lossy broker\n%s", out)
	case err != nil:
		t.Fatalf("run.sh: %v\n%s", err, out)
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	t.Log(lines[len(lines)-1])
}
