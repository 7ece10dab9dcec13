package brokertest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Every verb of a script is bounded, also on a busy machine. The first start may have to download.
const (
	startLimit = 10 * time.Minute
	verbLimit  = 3 * time.Minute
)

// cannotBeHad is the code of a script whose prerequisites are missing on this machine.
const cannotBeHad = 3

// Server is a server, or a cluster, that belongs to one test and ends with it. All methods fail the test on an error,
// and none waits longer than a few minutes. They are meant for the test's own goroutine.
type Server struct {
	t      testing.TB
	script string
	dir    string
	env    []string
	values map[string]string
}

// start runs a script's start verb with settings; a zero value leaves the script's default.
func start(t testing.TB, script string, settings map[string]any) *Server {
	t.Helper()
	scripts, err := scriptDir()
	if err != nil {
		t.Fatal(err)
	}
	sweep(scripts)
	s := &Server{t: t, script: filepath.Join(scripts, script), values: map[string]string{}}
	if s.dir, err = claimDir(); err != nil {
		t.Fatalf("make a folder for %s: %v", script, err)
	}
	s.env = append(os.Environ(), "DATA_DIR="+s.dir)
	for name, value := range settings {
		if value != "" && value != 0 {
			s.env = append(s.env, fmt.Sprintf("%s=%v", name, value))
		}
	}
	t.Cleanup(s.destroy)
	out, err := s.run(startLimit, "start")
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) && exit.ExitCode() == cannotBeHad {
		if os.Getenv("REQUIRE_SERVICES") == "1" {
			t.Fatalf("start a server of its own: %v", err)
		}
		t.Skipf("not proved here: %s needs a server of its own: %v", t.Name(), err)
	}
	if err != nil {
		t.Fatalf("start a server of its own: %v", err)
	}
	s.keep(out)
	return s
}

// keep takes the VAR='value' lines that a script prints.
func (s *Server) keep(out string) {
	for line := range strings.Lines(out) {
		name, value, found := strings.Cut(strings.TrimSpace(line), "=")
		if found {
			s.values[name] = strings.Trim(value, "'")
		}
	}
}

// Env returns an address or a secret of this server by the name that the shared one's variable has, such as
// KAFKA_BOOTSTRAP, RABBITMQ_API_1 or PG_URL_17.
func (s *Server) Env(name string) string {
	s.t.Helper()
	value, found := s.values[name]
	if !found {
		s.t.Fatalf("%s does not print %s", filepath.Base(s.script), name)
	}
	return value
}

// Kill ends a node by SIGKILL and returns when it is gone. Nodes count from 1; PostgreSQL has one; node 0 is the
// controller of a Kafka cluster of three.
func (s *Server) Kill(node int) { s.t.Helper(); s.must(verbLimit, "kill", node) }

// Pause freezes a node by SIGSTOP: its connections stay open and nothing is answered.
func (s *Server) Pause(node int) { s.t.Helper(); s.must(verbLimit, "pause", node) }

// Resume lets a paused node go on.
func (s *Server) Resume(node int) { s.t.Helper(); s.must(verbLimit, "resume", node) }

// StartNode starts a killed node again, on the same ports with the same data, and returns when it serves.
func (s *Server) StartNode(node int) { s.t.Helper(); s.must(verbLimit, "start-node", node) }

// Stop ends all nodes in the ordinary way and keeps the data; StartNode brings each back.
func (s *Server) Stop() { s.t.Helper(); s.must(verbLimit, "stop") }

// Ctl runs the server's own command line tool against a node, rabbitmqctl or one of Kafka's, and returns its output.
func (s *Server) Ctl(node int, args ...string) string {
	s.t.Helper()
	out, err := s.run(verbLimit, append([]string{"ctl", strconv.Itoa(node)}, args...)...)
	if err != nil {
		s.t.Fatal(err)
	}
	return out
}

func (s *Server) must(limit time.Duration, verb string, nodes ...int) {
	s.t.Helper()
	args := []string{verb}
	for _, node := range nodes {
		args = append(args, strconv.Itoa(node))
	}
	if _, err := s.run(limit, args...); err != nil {
		s.t.Fatal(err)
	}
}

func (s *Server) destroy() {
	if _, err := s.run(verbLimit, "destroy"); err != nil {
		s.t.Errorf("end the test's own server: %v", err)
		return // the folder stays, so that the next run finds and ends what may still live
	}
	if err := os.RemoveAll(s.dir); err != nil {
		s.t.Errorf("remove the server's folder: %v", err)
	}
}

// run ends by its own limit, not by the test's context, which is over when cleanup runs.
func (s *Server) run(limit time.Duration, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, s.script, args...)
	cmd.Env = s.env
	cmd.WaitDelay = time.Second
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w: %s", filepath.Base(s.script), strings.Join(args, " "), err, tail(stderr.String()))
	}
	return string(out), nil
}

// tail keeps the end of a long output, where the cause stands.
func tail(s string) string {
	const most = 2000
	s = strings.TrimSpace(s)
	return s[max(0, len(s)-most):]
}
