package acceptance

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/backend-skeleton/relay/internal/brokertest"
	"github.com/backend-skeleton/relay/internal/dbtest"
	"github.com/backend-skeleton/relay/internal/testenv"
)

// No way through the relay holds one connection while it asks for another: with two it does all its work at once, and
// with one as well.
func TestB59_APoolSmallerThanTheWork(t *testing.T) {
	t.Parallel()
	for _, size := range []int{2, 1} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, withDatabase(dbtest.OwnDatabase()), withKafka(false), withRabbit(false))
			w.patient()
			w.set("database", m{"pool-max": size})
			w.set("relay", m{"retention": m{"published": "1m"}}) // looked after every second, and nothing is due
			w.env = append(w.env, "PGAPPNAME=small-pool")
			for i := range 8 { // each with a pump of its own
				w.kafkaTo(fmt.Sprint("more.", i), w.topic)
			}
			kafka, rabbit := w.capture(kafkaDestination), w.capture(rabbitDestination)
			p := w.start()
			looked := w.lookAtPages(p)
			n := count(500, 40)
			var k []string
			for i := range 8 {
				k = append(k, w.insert(fmt.Sprint("more.", i), n/4, 5)...)
			}
			k = append(k, w.insert(kafkaDestination, n, 10)...)
			r := w.insert(rabbitDestination, n, 0)
			most := 0
			deadline := time.Now().Add(testenv.Within(20 * time.Second))
			for w.statuses() != fmt.Sprintf("PUBLISHED %d", len(k)+len(r)) && time.Now().Before(deadline) {
				most = max(most, w.number(`select count(*) from pg_stat_activity where datname = current_database() and application_name = 'small-pool'`))
			}
			w.published(time.Second, len(k)+len(r))
			looked()
			if allowed := size + min(size-1, 1); most > allowed { // listening for wake-ups has a connection of its own
				t.Errorf("up to %d connections, want at most %d", most, allowed)
			}
			kafka.WaitFor(t, 10*time.Second, k...)
			rabbit.WaitFor(t, 10*time.Second, r...)
			once(t, kafka, k)
			once(t, rabbit, r)
		})
	}
}

// lookAtPages reads the pages that ask the database until the returned function is called.
func (w *world) lookAtPages(p *process) (stop func()) {
	p.address()
	end := make(chan struct{})
	var wait sync.WaitGroup
	for _, page := range []string{"/metrics", "/actuator/messaging/outbox"} {
		wait.Go(func() {
			for {
				if code, _ := p.get(page); code != 200 {
					w.t.Errorf("%s answers %d", page, code)
				}
				select {
				case <-end:
					return
				case <-time.After(200 * time.Millisecond): // as an eager scraper does
				}
			}
		})
	}
	return func() {
		close(end)
		wait.Wait()
	}
}

// On a schema that is up to date neither a start nor a migration takes a lock that writers wait for, or that waits for
// a writer who went to lunch.
func TestB60_AStartLocksNobodyOut(t *testing.T) {
	t.Parallel()
	w := newWorld(t, withDatabase(dbtest.OwnDatabase()), withKafka(false))
	ctx := context.Background()
	idle, err := w.db.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = idle.Rollback(ctx) }() // after the commit it does nothing
	if _, err := idle.Exec(ctx, addMessage, kafkaDestination, "", "", "k1", ""); err != nil {
		t.Fatal(err)
	}
	writing := w.writeImpatiently()
	begin := time.Now()
	if code, out := w.migrate("up"); code != 0 {
		t.Errorf("migrate up: exit %d\n%s", code, out)
	}
	p := w.start()
	p.address()
	brokertest.Eventually(t, 5*time.Second, "a row of another writer to be sent", func() bool {
		return w.number(`select count(*) from messaging_outbox where status = 'PUBLISHED'`) > 0
	})
	t.Logf("migrated, started and published in %v", time.Since(begin))
	rows := writing()
	if err := idle.Commit(ctx); err != nil {
		t.Fatal(err)
	}
	w.published(20*time.Second, rows+1)
}

// writeImpatiently inserts rows until the returned function is called, which gives their number; an insert that waits
// 100 ms for a lock fails the test.
func (w *world) writeImpatiently() (stop func() int) {
	w.t.Helper()
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, w.db.URL())
	if err != nil {
		w.t.Fatal(err)
	}
	if _, err := conn.Exec(ctx, `set lock_timeout = '100ms'`); err != nil {
		w.t.Fatal(err)
	}
	end, done := make(chan struct{}), make(chan int)
	go func() {
		rows := 0
		defer func() { done <- rows }()
		defer func() { _ = conn.Close(ctx) }()
		for {
			if _, err := conn.Exec(ctx, addMessage, kafkaDestination, "", "", "k2", ""); err != nil {
				w.t.Errorf("an insert failed: %v", err)
				return
			}
			rows++
			select {
			case <-end:
				return
			case <-time.After(10 * time.Millisecond): // the rate of a small service
			}
		}
	}()
	return func() int {
		close(end)
		return <-done
	}
}

// migrate runs relay migrate on the world's database, as its owner.
func (w *world) migrate(args ...string) (code int, out string) {
	cmd := exec.Command(relayProgram, append([]string{"migrate"}, args...)...)
	cmd.Env = append(append(os.Environ(), w.env...), "RELAY_DATABASE_URL="+w.db.URL())
	text, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return -1, err.Error()
	}
	return cmd.ProcessState.ExitCode(), string(text)
}

// Programs that migrate at once take turns, and one that is killed half way leaves nothing that stops the next.
func TestB61_SeveralMigrateAtOnce(t *testing.T) {
	t.Parallel()
	for range count(20, 2) {
		w := newWorld(t, withDatabase(dbtest.OwnDatabase(), dbtest.Empty()))
		var wait sync.WaitGroup
		for range 8 {
			wait.Go(func() {
				if code, out := w.migrate("up"); code != 0 {
					t.Errorf("exit %d\n%s", code, out)
				}
			})
		}
		wait.Wait()
		w.migratedOnce()
	}

	w := newWorld(t, withDatabase(dbtest.OwnDatabase(), dbtest.Empty()))
	proxy := brokertest.NewProxy(t, w.databaseAddress())
	half := make(chan struct{})
	var reached sync.Once
	proxy.Intercept(func(c brokertest.Chunk) brokertest.Verdict {
		if c.Direction == brokertest.ToServer && bytes.Contains(c.Bytes, []byte("create table messaging_outbox_lane")) {
			reached.Do(func() { close(half) })
			return brokertest.Swallow
		}
		return brokertest.Forward
	})
	cmd := exec.Command(relayProgram, "migrate", "up")
	cmd.Env = append(os.Environ(), "RELAY_DATABASE_URL="+w.databaseURL(proxy.Addr()))
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	select {
	case <-half:
	case <-time.After(30 * time.Second):
		t.Error("the migration did not get half way")
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	if code, out := w.migrate("up"); code != 0 {
		t.Errorf("after a killed one: exit %d\n%s", code, out)
	}
	w.migratedOnce()
}

func (w *world) migratedOnce() {
	w.t.Helper()
	if n := w.number(`select count(*) from (select version_id from messaging_schema_version group by 1 having count(*) > 1) twice`); n > 0 {
		w.t.Errorf("%d versions are recorded more than once", n)
	}
	if code, out := w.migrate("status"); code != 0 {
		w.t.Errorf("status: exit %d\n%s", code, out)
	}
}
