package testenv

import (
	"runtime"
	"testing"
)

// recorder stands in for a test and keeps how it ended.
type recorder struct {
	testing.TB
	ended string
}

func (r *recorder) Helper()               {}
func (r *recorder) Name() string          { return "TestX" }
func (r *recorder) Skipf(string, ...any)  { r.end("skipped") }
func (r *recorder) Skip(...any)           { r.end("skipped") }
func (r *recorder) Fatalf(string, ...any) { r.end("failed") }
func (r *recorder) end(how string)        { r.ended = how; runtime.Goexit() }

func run(test func(testing.TB)) string {
	r := &recorder{ended: "passed"}
	done := make(chan struct{})
	go func() {
		defer close(done)
		test(r)
	}()
	<-done
	return r.ended
}

func TestRequire(t *testing.T) {
	const name = "TESTENV_ADDRESS"
	cases := map[string]struct{ value, require, want string }{
		"given":                {"127.0.0.1:1", "", "passed"},
		"given and required":   {"127.0.0.1:1", "1", "passed"},
		"missing":              {"", "", "skipped"},
		"missing but required": {"", "1", "failed"},
		"requirement is off":   {"", "0", "skipped"},
	}
	for what, c := range cases {
		t.Run(what, func(t *testing.T) {
			t.Setenv(name, c.value)
			t.Setenv("REQUIRE_SERVICES", c.require)
			var got string
			if ended := run(func(tb testing.TB) { got = Require(tb, name) }); ended != c.want || got != c.value {
				t.Errorf("%s with %q, want %s with %q", ended, got, c.want, c.value)
			}
		})
	}
}

func TestFullTier(t *testing.T) {
	for tier, want := range map[string]string{"": "skipped", "short": "skipped", "full": "passed", "certify": "passed"} {
		t.Setenv("TEST_TIER", tier)
		if got := run(FullTier); got != want {
			t.Errorf("TEST_TIER=%q: %s, want %s", tier, got, want)
		}
	}
}
