package brokertest

import (
	"testing"
	"time"

	"github.com/backend-skeleton/relay/internal/testenv"
)

// Eventually polls condition until it holds and fails the test when limit has passed, as [testenv.Within] counts it; what says what was waited for.
// Conditions that can be heard of are better waited for by their event.
func Eventually(t testing.TB, limit time.Duration, what string, condition func() bool) {
	t.Helper()
	limit = testenv.Within(limit)
	deadline := time.Now().Add(limit)
	for {
		if condition() {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("not within %v: %s", limit, what)
		}
		time.Sleep(20 * time.Millisecond)
	}
}
