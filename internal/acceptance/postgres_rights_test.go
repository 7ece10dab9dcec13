package acceptance

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/backend-skeleton/relay/internal/brokertest"
	"github.com/backend-skeleton/relay/internal/dbtest"
)

// A right is taken from the relays' role while they work: they live, say what is missing, publish nothing that cannot be
// recorded, and go on by themselves when the right is given back.
func TestPostgres_ARevokedRightIsWaitedFor(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, revoke, table, doctor string
		short                       int
	}{
		{"update of the rows", `revoke update on messaging_outbox from relay_worker`, "messaging_outbox", "lacks update on messaging_outbox ", 18},
		{"update of the lanes", `revoke update on messaging_outbox_lane from relay_worker`, "messaging_outbox_lane", "lacks update on messaging_outbox_lane ", 16},
		{"reading of the rows", `revoke select on messaging_outbox from relay_worker`, "messaging_outbox", "lacks select on messaging_outbox ", 17},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			onMajors(t, c.short, func(t *testing.T, major int) {
				w := newWorld(t, withDatabase(dbtest.Major(major), dbtest.OwnDatabase()), withKafka(false))
				w.patient()
				capture := w.capture(kafkaDestination)
				p := w.start()
				ids := w.insert(kafkaDestination, 20, 10)
				w.published(30*time.Second, 20)

				p.pause()
				ids = append(ids, w.insert(kafkaDestination, count(2000, 300), 20)...)
				w.exec(c.revoke)
				lines := strings.Count(p.out.String(), "\n")
				p.resume()
				p.notReady(kafkaDestination, "DATABASE_DENIED", 30*time.Second)
				brokertest.Eventually(t, 10*time.Second, "the log to name the table", func() bool {
					return strings.Contains(p.out.String(), "permission denied for table "+c.table+" ")
				})
				if out := w.doctor(); !strings.Contains(out, "RIGHTS_MISSING") || !strings.Contains(out, c.doctor) {
					t.Errorf("doctor does not name the right:\n%s", out)
				}
				if code, _ := p.get("/healthz"); code != 200 || !p.alive() {
					t.Errorf("alive is answered by %d", code)
				}
				if n := strings.Count(p.out.String(), "\n") - lines; n > 50 {
					t.Errorf("%d lines of log", n)
				}

				w.db.Grant(t)
				w.published(60*time.Second, len(ids))
				w.oneAttemptEach()
				capture.WaitFor(t, 20*time.Second, ids...)
				once(t, capture, ids)
				inOrder(t, capture, ids)
				brokertest.Eventually(t, 20*time.Second, "the relay to be ready again", func() bool {
					ready, _ := p.readiness(kafkaDestination)
					return ready
				})
			})
		})
	}
}

// doctor runs relay doctor with the rights of a relay.
func (w *world) doctor() string {
	w.t.Helper()
	cmd := exec.Command(relayProgram, "doctor")
	cmd.Env = append(os.Environ(), w.env...)
	out, err := cmd.CombinedOutput()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		w.t.Fatal(err)
	}
	return string(out)
}
