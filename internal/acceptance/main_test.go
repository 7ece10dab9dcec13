package acceptance

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The programs are built once, with the race detector: a race in one fails the test that ran it.
var relayProgram, inboxctlProgram string

func TestMain(m *testing.M) {
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "relay-acceptance-")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer func() { _ = os.RemoveAll(dir) }()
		for _, program := range []string{"relay", "inboxctl"} {
			cmd := exec.Command("go", "build", "-race", "-o", filepath.Join(dir, program), "../../cmd/"+program)
			if out, err := cmd.CombinedOutput(); err != nil {
				fmt.Fprintf(os.Stderr, "build %s: %v\n%s", program, err, out)
				return 1
			}
		}
		relayProgram, inboxctlProgram = filepath.Join(dir, "relay"), filepath.Join(dir, "inboxctl")
		for _, v := range os.Environ() { // a developer's own settings must not reach the programs
			if name, _, _ := strings.Cut(v, "="); strings.HasPrefix(name, "RELAY_") {
				_ = os.Unsetenv(name)
			}
		}
		return m.Run()
	}())
}
