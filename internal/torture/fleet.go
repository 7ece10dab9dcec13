package torture

import (
	"bytes"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/backend-skeleton/relay/internal/brokertest"
)

// member is one place of the fleet: a relay runs there, is killed, and another is started.
type member struct {
	t       testing.TB
	number  int
	program string
	config  string
	dir     string
	dsn     string // of the database, by way of this member's own link
	env     []string
	link    *brokertest.Proxy

	mu     sync.Mutex
	cmd    *exec.Cmd
	done   chan struct{} // closed when cmd has ended
	wanted bool
	starts int
	exits  int // that nobody asked for
	logs   []string
}

// start a relay there. One that ends unasked is started again, as a supervisor does: a database that is away may end
// one at its start.
func (m *member) start() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.cmd != nil {
		return
	}
	m.wanted = true
	m.starts++
	log := filepath.Join(m.dir, fmt.Sprintf("relay-%d-%d.log", m.number+1, m.starts))
	m.logs = append(m.logs, log)
	out, err := os.Create(log)
	if err != nil {
		m.t.Error(err)
		return
	}
	defer func() { _ = out.Close() }()
	u, err := url.Parse(m.dsn)
	if err != nil {
		m.t.Error("the database's address is not a URL")
		return
	}
	q := u.Query()
	q.Set("application_name", fmt.Sprintf("relay-%d-%d", m.number+1, m.starts))
	u.RawQuery = q.Encode()
	cmd := exec.Command(m.program, "run", "--config", m.config) //nolint:noctx,gosec // it is ended by signals; the program is ours
	cmd.Env = append(os.Environ(), append(m.env, "RELAY_DATABASE_URL="+u.String())...)
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		m.t.Errorf("start a relay: %v", err)
		return
	}
	m.cmd, m.done = cmd, make(chan struct{})
	go m.watch(cmd, m.done)
}

func (m *member) watch(cmd *exec.Cmd, done chan struct{}) {
	_ = cmd.Wait() // a killed one has no better answer
	m.mu.Lock()
	m.cmd = nil
	again := m.wanted
	if again {
		m.exits++
	}
	close(done)
	m.mu.Unlock()
	if again {
		<-time.After(300 * time.Millisecond)
		m.mu.Lock()
		again = m.wanted
		m.mu.Unlock()
		if again {
			m.start()
		}
	}
}

// end by a signal, and wait until it is gone. A stop that takes too long becomes a kill.
func (m *member) end(s syscall.Signal) {
	m.mu.Lock()
	m.wanted = false
	cmd, done := m.cmd, m.done
	m.mu.Unlock()
	if cmd == nil {
		return
	}
	m.signal(s)
	if s != syscall.SIGKILL {
		select {
		case <-done:
			return
		case <-time.After(15 * time.Second):
			m.signal(syscall.SIGKILL)
		}
	}
	<-done
}

func (m *member) signal(s syscall.Signal) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.cmd == nil {
		return
	}
	if err := m.cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		m.t.Errorf("signal a relay: %v", err)
	}
}

// panics names the logs in which a relay panicked.
func (m *member) panics() (found []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, log := range m.logs {
		if text, err := os.ReadFile(log); err == nil && (bytes.Contains(text, []byte("\npanic:")) || bytes.Contains(text, []byte("fatal error:"))) {
			found = append(found, log)
		}
	}
	return found
}
