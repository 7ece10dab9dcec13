// Package testenv tells a test what surrounds it: the addresses of real servers and the tier that runs. It is for tests
// alone, reads environment variables and starts nothing.
package testenv

import (
	"os"
	"testing"
	"time"
)

// Require returns the value of the environment variable name, the address of a real server such as PG_URL_17,
// KAFKA_BOOTSTRAP or RABBITMQ_URL_1. Without it the test is skipped and the skip says which proof is missing; with
// REQUIRE_SERVICES=1, as in continuous integration, the test fails instead, so that nothing turns green by skipping.
func Require(t testing.TB, name string) string {
	t.Helper()
	value := os.Getenv(name)
	if value != "" {
		return value
	}
	if os.Getenv("REQUIRE_SERVICES") == "1" {
		t.Fatalf("%s is not set, but REQUIRE_SERVICES=1 asks for every real server", name)
	}
	t.Skipf("not proved here: %s needs a real server and %s is not set (see tools/services/README.md)", t.Name(), name)
	return ""
}

// Full reports whether the tests of the nightly tier run: TEST_TIER is full or certify. The tier of every change, the
// default, is called short.
func Full() bool {
	tier := os.Getenv("TEST_TIER")
	return tier == "full" || tier == "certify"
}

// Within is how long something may take that shall take d at most. The tier of every change shares its machine with other
// tests and asserts no speed: there it must only happen.
func Within(d time.Duration) time.Duration {
	if Full() {
		return d
	}
	return d + 20*time.Second
}

// FullTier skips a test of the nightly tier unless that tier runs. Call it first, before any server is asked for.
func FullTier(t testing.TB) {
	t.Helper()
	if !Full() {
		t.Skip("belongs to the full tier: TEST_TIER=full, make test-full")
	}
}
