package acceptance

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/backend-skeleton/relay/internal/brokertest"
)

// Two relays, one of them killed every few seconds and restarted at once, while messages with keys flow to both
// brokers: nothing is lost, no id changes, no key loses its order. The full tier sends 100,000 to each broker.
func TestFleet_KilledAgainAndAgain(t *testing.T) {
	rows, every := 4000, 2*time.Second
	if os.Getenv("TEST_TIER") == "full" {
		rows, every = 100_000, 5*time.Second
	}
	w := newWorld(t, withKafka(false, brokertest.Partitions(6)), withRabbit(false))
	w.set("relay", m{"lease": "3s", "batch": 100, "attempts": 20})
	for _, d := range both {
		w.destinationFile(d)["producer"].(m)["timeout"] = "2s"
	}
	w.destinationFile(rabbitDestination)["guarantees"] = m{"ordering": "KEY"}
	w.destinationFile(rabbitDestination)["outbox"] = m{"keyless": "allow"}
	relayProgram := plainRelay(t)
	file := w.write()
	captures := map[string]*brokertest.Capture{}
	for _, d := range both {
		captures[d] = w.capture(d)
	}
	relays := []*process{w.startProgram(relayProgram, file), w.startProgram(relayProgram, file)}
	inserted := make(chan map[string][]string, 1)
	go func() {
		ids := map[string][]string{}
		for n := 0; n < rows; n += 500 {
			for _, d := range both {
				ids[d] = append(ids[d], w.insert(d, min(500, rows-n), 200)...)
			}
		}
		inserted <- ids
	}()
	open := `select count(*) from messaging_outbox where status <> 'PUBLISHED'`
	kills, deadline := 0, time.Now().Add(10*time.Minute)
	var ids map[string][]string
	kill := time.NewTicker(every)
	defer kill.Stop()
	for done := false; !done; {
		select {
		case <-kill.C:
			i := kills % len(relays)
			relays[i].kill()
			relays[i] = w.startProgram(relayProgram, file)
			kills++
		case ids = <-inserted:
		case <-time.After(100 * time.Millisecond):
		}
		done = ids != nil && w.number(open) == 0
		if time.Now().After(deadline) {
			t.Fatalf("not done in time: %s", w.statuses())
		}
	}
	for _, d := range both {
		c := captures[d]
		c.WaitFor(t, time.Minute, ids[d]...)
		counts := c.IDs()
		if len(counts) != rows {
			t.Errorf("%s: %d ids captured, want %d", d, len(counts), rows)
		}
		inOrder(t, c, ids[d])
		t.Logf("%s: %d rows, %d deliveries, %d kills", d, rows, c.Len(), kills)
	}
	doubted := w.number(`select count(*) from messaging_outbox where ambiguous_attempts > 0`)
	if n := len(captures[kafkaDestination].Duplicates()) + len(captures[rabbitDestination].Duplicates()); n > doubted {
		t.Errorf("%d rows were sent twice, only %d were in doubt", n, doubted)
	}
}

// plainRelay is the program without the race detector, for runs under load.
func plainRelay(t *testing.T) string {
	t.Helper()
	path, err := buildPlainRelay()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

var buildPlainRelay = sync.OnceValues(func() (string, error) {
	path := filepath.Join(filepath.Dir(relayProgram), "plain-relay")
	if out, err := exec.Command("go", "build", "-o", path, "../../cmd/relay").CombinedOutput(); err != nil {
		return "", fmt.Errorf("build relay: %w\n%s", err, out)
	}
	return path, nil
})
