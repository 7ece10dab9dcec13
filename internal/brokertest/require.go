package brokertest

import (
	"testing"

	"github.com/backend-skeleton/relay/internal/testenv"
)

// Require returns the address of a real server from the environment, such as KAFKA_BOOTSTRAP or RABBITMQ_URL_1. Without
// it the test is skipped, saying which proof is missing, or fails when REQUIRE_SERVICES=1.
func Require(t testing.TB, name string) string {
	t.Helper()
	return testenv.Require(t, name)
}

// FullTier skips a test of the nightly tier unless TEST_TIER is full or certify. Call it first.
func FullTier(t testing.TB) {
	t.Helper()
	testenv.FullTier(t)
}
