package acceptance

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/backend-skeleton/relay/internal/brokertest"
)

// process is a running relay.
type process struct {
	t    testing.TB
	cmd  *exec.Cmd
	out  *output
	done chan struct{} // closed when it ended
	err  error
}

// output collects what a program prints; it is read while the program runs.
type output struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.String()
}

// start runs a relay on the world's file. It is killed when the test ends, if it still runs; a race in it, or a panic,
// fails the test.
func (w *world) start(args ...string) *process {
	w.t.Helper()
	return w.startFile(w.write(), args...)
}

func (w *world) startFile(path string, args ...string) *process {
	w.t.Helper()
	return w.startProgram(relayProgram, path, args...)
}

func (w *world) startProgram(program, path string, args ...string) *process {
	w.t.Helper()
	p := &process{t: w.t, out: &output{}, done: make(chan struct{})}
	p.cmd = exec.Command(program, append([]string{"run", "--config", path}, args...)...)
	p.cmd.Env = append(os.Environ(), w.env...)
	p.cmd.Stdout, p.cmd.Stderr = p.out, p.out
	if err := p.cmd.Start(); err != nil {
		w.t.Fatal(err)
	}
	go func() {
		p.err = p.cmd.Wait()
		close(p.done)
	}()
	w.t.Cleanup(func() {
		p.kill()
		text := p.out.String()
		if strings.Contains(text, "DATA RACE") || strings.Contains(text, "panic:") {
			w.t.Errorf("the relay raced or panicked")
		}
		if w.t.Failed() {
			w.t.Logf("a relay's output ends:\n%s", lastLines(text, 40))
		}
	})
	return p
}

func lastLines(s string, n int) string {
	lines := strings.Split(strings.TrimRight(s, "\n"), "\n")
	return strings.Join(lines[max(len(lines)-n, 0):], "\n")
}

func (p *process) signal(s syscall.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		p.t.Fatal(err)
	}
}

// kill ends it at once, as a crash does, and waits until it is gone.
func (p *process) kill() {
	_ = p.cmd.Process.Signal(syscall.SIGKILL)
	<-p.done
}

// pause returns when every thread stands, which on a busy machine takes a moment.
func (p *process) pause() {
	p.t.Helper()
	p.signal(syscall.SIGSTOP)
	brokertest.Eventually(p.t, 20*time.Second, "the process to stand still", func() bool {
		threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", p.cmd.Process.Pid)) // none where there is no /proc
		return !slices.ContainsFunc(threads, func(file string) bool {
			status, err := os.ReadFile(file)
			return err == nil && !bytes.Contains(status, []byte("\nState:\tT"))
		})
	})
}

func (p *process) resume() { p.t.Helper(); p.signal(syscall.SIGCONT) }

// stop asks it to end and waits for the exit code.
func (p *process) stop(limit time.Duration) int {
	p.t.Helper()
	p.signal(syscall.SIGTERM)
	return p.wait(limit)
}

// wait for the exit code.
func (p *process) wait(limit time.Duration) int {
	p.t.Helper()
	select {
	case <-p.done:
		return p.cmd.ProcessState.ExitCode()
	case <-time.After(limit):
		p.t.Fatalf("the relay did not end within %v", limit)
		return -1
	}
}

func (p *process) alive() bool {
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

var listening = regexp.MustCompile(`127\.0\.0\.1:\d+`)

// address of its pages, as it logs it at start.
func (p *process) address() string {
	p.t.Helper()
	var found string
	brokertest.Eventually(p.t, 20*time.Second, "the relay to serve its pages", func() bool {
		for _, line := range strings.Split(p.out.String(), "\n") {
			if found == "" && strings.Contains(line, `"listen":`) && !strings.Contains(line, ":0\"") {
				found = listening.FindString(line)
			}
		}
		return found != "" || !p.alive()
	})
	if found == "" {
		p.t.Fatal("the relay ended before it served its pages")
	}
	return found
}

// get a page; the code is 0 where nothing answered.
func (p *process) get(path string) (int, string) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+p.address()+path, nil)
	if err != nil {
		p.t.Fatal(err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, ""
	}
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		return 0, ""
	}
	return res.StatusCode, string(body)
}

// readiness of one destination: whether it is ready, and the reason where it is not.
func (p *process) readiness(destination string) (ready bool, reason string) {
	p.t.Helper()
	_, body := p.get("/readyz")
	var page struct {
		Destinations []struct {
			Name, Reason string
			Ready        bool
		}
	}
	if err := json.Unmarshal([]byte(body), &page); err != nil {
		return false, ""
	}
	for _, d := range page.Destinations {
		if d.Name == destination {
			return d.Ready, d.Reason
		}
	}
	return false, ""
}

// metric sums the samples of a metric whose labels contain all the given texts, such as destination="x".
func (p *process) metric(name string, labels ...string) float64 {
	p.t.Helper()
	_, body := p.get("/metrics")
	sum := 0.0
	for line := range strings.Lines(body) {
		rest, ok := strings.CutPrefix(strings.TrimSpace(line), name)
		if !ok || (rest[0] != '{' && rest[0] != ' ') {
			continue
		}
		all := true
		for _, l := range labels {
			all = all && strings.Contains(rest, l)
		}
		if !all {
			continue
		}
		var v float64
		if err := json.Unmarshal([]byte(rest[strings.LastIndex(rest, " ")+1:]), &v); err != nil {
			p.t.Fatalf("metric %s: %v", name, err)
		}
		sum += v
	}
	return sum
}
