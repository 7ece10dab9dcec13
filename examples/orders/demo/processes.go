package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"
)

// processes builds the programs and owns every one that runs.
type processes struct {
	dir string // programs in bin, logs in log

	mu      sync.Mutex
	running []*process
}

// process is one running program; its output goes to a log file.
type process struct {
	name string
	log  string
	cmd  *exec.Cmd
	done chan struct{} // closed when it has ended; err is set then
	err  error
}

func (p *processes) program(name string) string { return filepath.Join(p.dir, "bin", name) }

func (p *processes) build(ctx context.Context) error {
	if err := os.MkdirAll(filepath.Join(p.dir, "bin"), 0o755); err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, "go", "build", "-o", filepath.Join(p.dir, "bin")+"/",
		"./cmd/relay", "./cmd/inboxctl", "./examples/orders/cmd/order-service", "./examples/orders/cmd/order-consumer")
	cmd.Stderr = os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("go build: %w", err)
	}
	return nil
}

// once runs a program to its end.
func (p *processes) once(ctx context.Context, env []string, program string, args ...string) error {
	cmd := exec.CommandContext(ctx, p.program(program), args...)
	cmd.Env = append(os.Environ(), env...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s %s: %w\n%s", program, args[0], err, out)
	}
	return nil
}

// start runs a program until it ends or is stopped. A name used again appends to its log.
func (p *processes) start(name string, env []string, program string, args ...string) (*process, error) {
	path := filepath.Join(p.dir, "log", name+".log")
	log, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(p.program(program), args...)
	cmd.Env = append(os.Environ(), env...)
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		return nil, errors.Join(fmt.Errorf("start %s: %w", name, err), log.Close())
	}
	r := &process{name: name, log: path, cmd: cmd, done: make(chan struct{})}
	go func() {
		r.err = cmd.Wait()
		log.Close()
		close(r.done)
	}()
	p.mu.Lock()
	p.running = append(p.running, r)
	p.mu.Unlock()
	return r, nil
}

// signal sends s; a process that has ended already is none of its business.
func (r *process) signal(s os.Signal) {
	_ = r.cmd.Process.Signal(s)
}

// kill ends the process as a crash would, and waits for it.
func (r *process) kill() {
	r.signal(syscall.SIGKILL)
	<-r.done
}

// stop asks the process to end and says how it did.
func (r *process) stop(ctx context.Context) error {
	r.signal(syscall.SIGTERM)
	select {
	case <-r.done:
	case <-ctx.Done():
		return fmt.Errorf("%s did not stop: %w", r.name, ctx.Err())
	}
	if r.err != nil {
		return fmt.Errorf("%s ended with %w, see %s", r.name, r.err, r.log)
	}
	return nil
}

// ended says whether the process is gone, with its error.
func (r *process) ended() (bool, error) {
	select {
	case <-r.done:
		if r.err != nil {
			return true, fmt.Errorf("%s ended with %w, see %s", r.name, r.err, r.log)
		}
		return true, nil
	default:
		return false, nil
	}
}

// killAll leaves no process behind, whatever happened.
func (p *processes) killAll() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, r := range p.running {
		r.kill()
	}
}

// eventually polls until done answers true, or an error, or ctx ends.
func eventually(ctx context.Context, every time.Duration, done func() (bool, error)) error {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		if ok, err := done(); ok || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}
