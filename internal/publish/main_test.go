package publish_test

import (
	"testing"

	"go.uber.org/goleak"
)

// A goroutine that outlives its owner fails the package.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
