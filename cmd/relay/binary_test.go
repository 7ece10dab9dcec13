package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/backend-skeleton/relay/internal/cli/clitest"
)

var program clitest.Program

func TestMain(m *testing.M) { os.Exit(clitest.Main(m, &program)) }

// relay runs the program to its end.
func relay(t *testing.T, env []string, args ...string) clitest.Result {
	t.Helper()
	return program.Run(t, env, args...)
}

// file writes a configuration file.
func file(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "relay.yaml")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}
