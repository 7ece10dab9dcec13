package client_test

import (
	"testing"

	"go.uber.org/goleak"
)

// A goroutine that outlives its test has lost its owner.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
