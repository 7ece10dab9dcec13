package outbox_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/backend-skeleton/relay/internal/brokertest"
	"github.com/backend-skeleton/relay/internal/outbox"
)

// pruneURL makes this test binary a process that archives and can be killed.
const pruneURL = "OUTBOX_TEST_PRUNE_URL"

// TestPruningProcess is the process that dies. It tells of each page.
func TestPruningProcess(t *testing.T) {
	url := os.Getenv(pruneURL)
	if url == "" {
		t.Skip("it runs as a process of another test")
	}
	pool, err := pgxpool.New(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	_, err = outbox.New(pool, outbox.Config{Name: "dying"}).Prune(t.Context(), outbox.Retention{Keep: week, Archive: true, Batch: 200}, func(p outbox.Page) {
		fmt.Fprintln(os.Stdout, "page", p.Rows)
	})
	if err != nil {
		t.Fatal(err)
	}
}

// A process that is killed at any point of moving rows has moved each of them once or not at all, and the next goes on
// where it stood.
func TestB54_AKilledCleanUpLosesAndDoublesNothing(t *testing.T) {
	t.Parallel()
	b := setup(t, 10*time.Second)
	const rows = 20_000
	aged(t, b.db, rows, 8*24*time.Hour)
	var place string
	for kill := 1; kill <= 3; kill++ {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestPruningProcess$", "-test.count=1")
		cmd.Env = append(os.Environ(), pruneURL+"="+b.db.URL()+"&application_name=dying")
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		pages := 0
		for lines := bufio.NewScanner(out); pages < 3*kill && lines.Scan(); {
			pages++
		}
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait() // killed
		if pages < 3*kill {
			t.Fatalf("the process ended by itself after %d pages", pages)
		}
		brokertest.Eventually(t, 15*time.Second, "the server ends the dead one's session", func() bool {
			return count(t, b.db, `select count(*) from pg_stat_activity where application_name = 'dying' and query like '%messaging_outbox%' and datname = current_database() and state <> 'idle'
			  and pid in (select pid from pg_locks where relation = 'messaging_outbox'::regclass)`) == 0
		})
		archived := count(t, b.db, `select count(*) from messaging_outbox_archive`)
		if left := count(t, b.db, `select count(*) from messaging_outbox`); archived+left != rows || archived == 0 || left == 0 {
			t.Fatalf("kill %d: %d rows in the archive and %d in the outbox, of %d", kill, archived, left, rows)
		}
		if both := count(t, b.db, `select count(*) from messaging_outbox join messaging_outbox_archive using (message_id)`); both != 0 {
			t.Fatalf("kill %d: %d rows stand in both tables", kill, both)
		}
		before := place
		if err := b.db.QueryRow(t.Context(), `select cursor from messaging_outbox_task where name = 'retention'`).Scan(&place); err != nil || place <= before {
			t.Fatalf("kill %d: the place went from %q to %q, %v", kill, before, place, err)
		}
		if first := count(t, b.db, `select count(*) from messaging_outbox where message_id <= (select cursor::uuid from messaging_outbox_task where name = 'retention')`); first != 0 {
			t.Errorf("kill %d: %d rows before the kept place", kill, first)
		}
		if mine, err := b.store.Prune(t.Context(), outbox.Retention{Keep: week}, func(outbox.Page) {}); err != nil || mine {
			t.Fatalf("kill %d: its lease was not waited for: %t, %v", kill, mine, err)
		}
		expireTasks(t, b.db)
	}
	if mine, err := b.store.Prune(t.Context(), outbox.Retention{Keep: week, Archive: true}, func(outbox.Page) {}); err != nil || !mine {
		t.Fatalf("the last one: %t, %v", mine, err)
	}
	if n := count(t, b.db, `select count(distinct message_id) from messaging_outbox_archive`); n != rows {
		t.Errorf("%d rows in the archive, want %d", n, rows)
	}
	if n := count(t, b.db, `select count(*) from messaging_outbox`); n != 0 {
		t.Errorf("%d rows in the outbox", n)
	}
}
