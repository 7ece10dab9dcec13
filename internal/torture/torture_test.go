package torture

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/backend-skeleton/relay/internal/testenv"
)

var (
	seedFlag    = flag.Uint64("seed", 7, "seed of the nemesis and the writers")
	minutesFlag = flag.Float64("minutes", 0, "length of the schedule; default 3, in the full tier 10")
	rateFlag    = flag.Int("rate", 0, "rows a second; default 200")
	reportFlag  = flag.String("report", "", "file for the report")
	logsFlag    = flag.String("logs", "", "existing folder for the relays' logs; default is one that ends with the test")
)

// build the relay without the race detector, as it runs in production.
func build(t testing.TB, flags ...string) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "relay")
	args := append(append([]string{"build", "-o", program}, flags...), "../../cmd/relay")
	if out, err := exec.CommandContext(t.Context(), "go", args...).CombinedOutput(); err != nil {
		t.Fatal(fmt.Errorf("build relay: %w\n%s", err, out))
	}
	return program
}

// Four relays, one table, both brokers, and a nemesis: nothing is lost, nothing changes, keys keep their order, and
// every duplicate is explained.
func TestTorture(t *testing.T) {
	t.Parallel()
	minutes := *minutesFlag
	if minutes == 0 {
		if minutes = 3; testenv.Full() {
			minutes = 10
		}
	}
	r := Run(t, Options{
		Seed: *seedFlag, Length: time.Duration(minutes * float64(time.Minute)), Rate: *rateFlag, Program: build(t), OwnServers: true, Logs: *logsFlag,
	})
	t.Logf("\n%s", r)
	if *reportFlag != "" {
		if err := os.WriteFile(*reportFlag, []byte(r.String()), 0o600); err != nil {
			t.Error(err)
		}
	}
	if !r.OK() {
		t.Error("promises were broken: see the report above")
	}
	if r.Duplicates == 0 || r.RelayLost == 0 || r.Held == 0 || r.Refused == 0 {
		t.Error("the nemesis was too kind to prove anything: it made no duplicate, no lost window, no refusal or no held row")
	}
}
