// Package clitest runs the real program of a command's directory in tests: built once, with an environment of its own,
// judged by exit code and output. It is for tests alone.
package clitest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Program is a built command.
type Program struct{ path string }

// Main builds the command in the current directory into p, runs the tests and gives their exit code.
func Main(m *testing.M, p *Program) int {
	dir, err := os.MkdirTemp("", "relay-program")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }()
	p.path = filepath.Join(dir, "program")
	build := exec.CommandContext(context.Background(), "go", "build", "-o", p.path, ".") //nolint:gosec // the path is a temporary one of our own
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "build: %v\n%s", err, out)
		return 1
	}
	return m.Run()
}

// Command makes a process with an environment of its own: nothing of the test's comes in but PATH.
func (p *Program) Command(t testing.TB, env []string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), p.path, args...) //nolint:gosec // the program under test
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir()}, env...)
	return cmd
}

// Result is how a run of the program ended.
type Result struct {
	Code           int
	Stdout, Stderr string
	Took           time.Duration
}

// endless is when a program that was to end by itself is ended, so that what it wrote shows in its test.
const endless = 3 * time.Minute

// Run runs the program to its end.
func (p *Program) Run(t testing.TB, env []string, args ...string) Result {
	t.Helper()
	cmd := p.Command(t, env, args...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	start := time.Now()
	err := cmd.Start()
	if err == nil {
		defer time.AfterFunc(endless, func() { _ = cmd.Process.Kill() }).Stop()
		err = cmd.Wait()
	}
	r := Result{Stdout: stdout.String(), Stderr: stderr.String(), Took: time.Since(start)}
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		r.Code = exit.ExitCode()
	case err != nil:
		t.Fatal(err)
	}
	return r
}

// Both is everything that was printed.
func (r Result) Both() string { return r.Stdout + r.Stderr }

// Want checks the exit code and that the output holds each part.
func (r Result) Want(t testing.TB, code int, parts ...string) {
	t.Helper()
	if r.Code != code {
		t.Errorf("exit code %d, want %d\nstdout: %s\nstderr: %s", r.Code, code, r.Stdout, r.Stderr)
	}
	for _, part := range parts {
		if !strings.Contains(r.Both(), part) {
			t.Errorf("no %q in\nstdout: %s\nstderr: %s", part, r.Stdout, r.Stderr)
		}
	}
}
