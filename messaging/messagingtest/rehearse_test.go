package messagingtest

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
)

// rehearse runs the contract, or the cases that are named, in a bubble, where waiting costs no time, and takes failures down
// instead of failing.
func rehearse(t *testing.T, open func(testing.TB) Subject, only ...string) (report Report) {
	t.Helper()
	cases := slices.DeleteFunc(contract(), func(c contractCase) bool { return len(only) > 0 && !slices.Contains(only, c.name) })
	synctest.Test(t, func(t *testing.T) {
		root := &recorder{TB: t, name: t.Name()}
		report = runContract(root, cases, open, func(tb testing.TB, name string, f func(testing.TB)) bool {
			sub := &recorder{TB: t, name: tb.Name() + "/" + name}
			sub.run(f)
			for _, l := range sub.lines {
				t.Logf("%s: %s", sub.name, l)
			}
			return !sub.failed
		})
		root.clean()
	})
	return report
}

// recorder is a testing.TB whose failures fail nothing.
type recorder struct {
	testing.TB // for what is not told apart here
	name       string

	mu       sync.Mutex // guards what follows
	failed   bool
	skipped  bool
	lines    []string
	cleanups []func()
}

// run calls f as a test is called: on a goroutine that may end.
func (r *recorder) run(f func(testing.TB)) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer r.clean()
		defer func() {
			if p := recover(); p != nil {
				r.Errorf("panic: %v", p)
			}
		}()
		f(r)
	}()
	<-done
}

func (r *recorder) clean() {
	for {
		r.mu.Lock()
		n := len(r.cleanups)
		if n == 0 {
			r.mu.Unlock()
			return
		}
		last := r.cleanups[n-1]
		r.cleanups = r.cleanups[:n-1]
		r.mu.Unlock()
		done := make(chan struct{})
		go func() { // a cleanup may end its goroutine, too
			defer close(done)
			last()
		}()
		<-done
	}
}

func (r *recorder) note(line string, failed bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failed = r.failed || failed
	r.lines = append(r.lines, line)
}

func (r *recorder) Helper()      {}
func (r *recorder) Name() string { return r.name }

func (r *recorder) Cleanup(f func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cleanups = append(r.cleanups, f)
}

func (r *recorder) Context() context.Context { return context.Background() }

func (r *recorder) Log(args ...any)                 {}
func (r *recorder) Logf(format string, args ...any) {}

func (r *recorder) Error(args ...any)                 { r.note(fmt.Sprint(args...), true) }
func (r *recorder) Errorf(format string, args ...any) { r.note(fmt.Sprintf(format, args...), true) }

func (r *recorder) Fatal(args ...any) {
	r.note(fmt.Sprint(args...), true)
	runtime.Goexit()
}

func (r *recorder) Fatalf(format string, args ...any) {
	r.note(fmt.Sprintf(format, args...), true)
	runtime.Goexit()
}

func (r *recorder) Fail()    { r.note("failed", true) }
func (r *recorder) FailNow() { r.Fail(); runtime.Goexit() }

func (r *recorder) Failed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.failed
}

func (r *recorder) SkipNow() {
	r.mu.Lock()
	r.skipped = true
	r.mu.Unlock()
	runtime.Goexit()
}

func (r *recorder) Skip(...any)          { r.SkipNow() }
func (r *recorder) Skipf(string, ...any) { r.SkipNow() }
