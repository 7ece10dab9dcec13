package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/backend-skeleton/relay/internal/brokertest"
	"github.com/backend-skeleton/relay/internal/dbtest"
)

// add inserts n messages for a destination, as a service would.
func (p *plant) add(t *testing.T, destination string, n int) {
	t.Helper()
	_, err := p.db.Exec(t.Context(), `
		select messaging_outbox_add($1, 'order.created', 'orders', convert_to('{"n":' || n || '}', 'UTF8'), ordering_key => 'k' || n % 3)
		from generate_series(1, $2::int) as n`, destination, n)
	if err != nil {
		t.Fatal(err)
	}
}

// count counts the rows of a status.
func (p *plant) count(t *testing.T, status string) (n int) {
	t.Helper()
	if err := p.db.QueryRow(t.Context(), `select count(*) from messaging_outbox_status where status = $1`, status).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// running is a relay that was started and not waited for yet.
type running struct {
	cmd    *exec.Cmd
	stderr *lines
	ended  chan struct{}
}

// lines is what a process has written so far.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// start runs the relay until the test ends it.
func start(t *testing.T, env []string, args ...string) *running {
	t.Helper()
	r := &running{cmd: program.Command(t, env, args...), stderr: &lines{}, ended: make(chan struct{})}
	r.cmd.Stderr, r.cmd.Stdout = r.stderr, r.stderr
	if err := r.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(r.ended)
		_ = r.cmd.Wait() // the state says how it ended
	}()
	t.Cleanup(func() {
		_ = r.cmd.Process.Kill()
		<-r.ended
	})
	return r
}

// address is where the actuator listens, once it does.
func (r *running) address(t *testing.T) (address string) {
	t.Helper()
	brokertest.Eventually(t, 20*time.Second, "the relay says where it listens", func() bool {
		for line := range strings.Lines(r.stderr.String()) {
			var entry struct{ Msg, Listen string }
			if json.Unmarshal([]byte(line), &entry) == nil && entry.Msg == "relay starts" {
				address = entry.Listen
			}
		}
		return address != ""
	})
	return address
}

func (r *running) signal(t *testing.T, s syscall.Signal) {
	t.Helper()
	if err := r.cmd.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
}

// wait gives the exit code, 128 + signal for a process that a signal ended.
func (r *running) wait(t *testing.T, limit time.Duration) int {
	t.Helper()
	select {
	case <-r.ended:
	case <-time.After(limit):
		t.Fatalf("still running after %v: %s", limit, r.stderr)
	}
	if status, ok := r.cmd.ProcessState.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return 128 + int(status.Signal())
	}
	return r.cmd.ProcessState.ExitCode()
}

func TestRunUntilEmptyPublishesAndEnds(t *testing.T) {
	t.Parallel()
	p := newPlant(t)
	orders := brokertest.CaptureKafka(t, p.values["KAFKA"], p.topic)
	mails := brokertest.CaptureRabbit(t, p.vhost.URL(), "mail")
	p.add(t, "order-events", 30)
	p.add(t, "email-work", 20)
	relay(t, p.env, "run", "--until-empty", "--timeout", "60s", "--config", p.file(t)).Want(t, 0, "relay starts", "relay ended")
	orders.Wait(t, 30, 10*time.Second)
	mails.Wait(t, 20, 10*time.Second)
	if n := p.count(t, "PUBLISHED"); n != 50 {
		t.Errorf("%d rows are published", n)
	}
	relay(t, p.env, "run", "--until-empty", "--config", p.file(t)).Want(t, 0)
}

// What a pooler in transaction mode needs (no prepared statement, no listening) works with a server too.
func TestRunInTheModeOfATransactionPooler(t *testing.T) {
	t.Parallel()
	p := newPlant(t)
	p.add(t, "order-events", 12)
	env := append([]string{"RELAY_DATABASE_POOLER=transaction"}, p.env...)
	relay(t, env, "run", "--until-empty", "--timeout", "60s", "--config", p.file(t)).Want(t, 0, "off behind a pooler in transaction mode")
	if n := p.count(t, "PUBLISHED"); n != 12 {
		t.Errorf("%d rows are published", n)
	}
}

func TestRunUntilEmptySaysThatRowsAreLeft(t *testing.T) {
	t.Parallel()
	p := newPlant(t)
	p.add(t, "order-events", 3)
	r := relay(t, p.env, "run", "--until-empty", "--timeout", "3s", "--config", p.file(t, "KAFKA=127.0.0.1:1"))
	r.Want(t, 6, "rows are left")
	if r.Took > 30*time.Second {
		t.Errorf("took %v", r.Took)
	}
	if n := p.count(t, "PENDING"); n != 3 {
		t.Errorf("%d rows wait, want 3", n)
	}
}

// Both signals stop in order: what was claimed is published and recorded, the leases are given back.
func TestRunStopsInOrder(t *testing.T) {
	t.Parallel()
	for _, s := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		t.Run(s.String(), func(t *testing.T) {
			t.Parallel()
			p := newPlant(t)
			r := start(t, p.env, "run", "--config", p.file(t))
			r.address(t)
			p.add(t, "order-events", 10)
			brokertest.Eventually(t, 20*time.Second, "the rows are published", func() bool { return p.count(t, "PUBLISHED") == 10 })
			r.signal(t, s)
			if code := r.wait(t, 15*time.Second); code != 0 {
				t.Errorf("exit code %d: %s", code, r.stderr)
			}
			var owned int
			if err := p.db.QueryRow(t.Context(), `select count(*) from messaging_outbox_lane where owner is not null`).Scan(&owned); err != nil || owned > 0 {
				t.Errorf("%d lanes are still owned, %v", owned, err)
			}
		})
	}
}

// A second signal ends a stop that takes long at once.
func TestSecondSignalEndsAtOnce(t *testing.T) {
	t.Parallel()
	p := newPlant(t)
	proxy := brokertest.NewKafkaProxy(t, p.values["KAFKA"])
	r := start(t, p.env, "run", "--config", p.file(t, "KAFKA="+proxy.Addr(), "TIMEOUT=20s", "LEASE=30s", "DRAIN=30s"))
	r.address(t)
	held := proxy.Trap(brokertest.HoldAnswer, 1, nil) // the broker has the record and does not say so
	p.add(t, "order-events", 1)
	held.Wait(t, 1, 20*time.Second)
	r.signal(t, syscall.SIGTERM)
	brokertest.Eventually(t, 10*time.Second, "the relay drains", func() bool {
		var state string
		return p.db.QueryRow(t.Context(), `select state from messaging_outbox_relay`).Scan(&state) == nil && state == "DRAINING"
	})
	r.signal(t, syscall.SIGTERM)
	if code := r.wait(t, 5*time.Second); code != 143 {
		t.Errorf("exit code %d: %s", code, r.stderr)
	}
}

// A wake-up by notification is much faster than the poll.
func TestWakeUpByNotification(t *testing.T) {
	t.Parallel()
	p := newPlant(t)
	r := start(t, p.env, "run", "--config", p.file(t, "POLL=60s", "LEASE=120s"))
	r.address(t)
	brokertest.Eventually(t, 20*time.Second, "the relay listens", func() bool {
		var n int
		err := p.db.QueryRow(t.Context(), `select count(*) from pg_stat_activity where datname = current_database() and application_name = 'relay listens' and query like 'listen %'`).Scan(&n)
		return err == nil && n > 0
	})
	p.add(t, "email-work", 1)
	if _, err := p.db.Exec(t.Context(), `notify messaging_outbox`); err != nil {
		t.Fatal(err)
	}
	brokertest.Eventually(t, 15*time.Second, "the row is published before the next poll", func() bool { return p.count(t, "PUBLISHED") == 1 })
}

func TestListenerAddressInUse(t *testing.T) {
	t.Parallel()
	p := newPlant(t)
	first := start(t, p.env, "run", "--config", p.file(t))
	env := append([]string{"RELAY_HTTP_LISTEN=" + first.address(t)}, p.env...)
	relay(t, env, "run", "--config", p.file(t)).Want(t, 1, "http.listen", "address already in use")
}

// Failure case B76: a healthy relay with a debug log, and one whose password is refused, print and show no password.
func TestB76_NoLogOrPageShowsAPassword(t *testing.T) {
	t.Parallel()
	p := newPlant(t)
	user, _ := p.vhost.User(t, ".*", ".*", ".*")
	p.vhost.Password(t, user, "S3cr3t")
	p.values["USER"] = user
	dsn := databaseUser(t, p.db, "S3cr3t")
	for name, password := range map[string]string{"healthy": "S3cr3t", "refused": "S3cr3t-wrong"} {
		t.Run(name, func(t *testing.T) {
			env := []string{"RELAY_DATABASE_URL=" + dsn, "RABBIT_PASSWORD=" + password, "RELAY_OBSERVABILITY_LOG_LEVEL=debug"}
			r := start(t, env, "run", "--config", p.file(t))
			address := r.address(t)
			p.add(t, "email-work", 1)
			brokertest.Eventually(t, 20*time.Second, "the relay says what became of the row", func() bool {
				return strings.Contains(r.stderr.String(), "published") && p.count(t, "PUBLISHED") > 0 || strings.Contains(r.stderr.String(), "breaker opened")
			})
			for _, page := range []string{"/actuator/messaging", "/actuator/messaging/outbox", "/healthz", "/readyz", "/info", "/metrics"} {
				answer, err := http.Get(fmt.Sprintf("http://%s%s", address, page))
				if err != nil {
					t.Fatal(err)
				}
				body, _ := io.ReadAll(answer.Body)
				_ = answer.Body.Close()
				if bytes.Contains(body, []byte("S3cr3t")) {
					t.Errorf("%s shows a password", page)
				}
			}
			r.signal(t, syscall.SIGTERM)
			if code := r.wait(t, 15*time.Second); code != 0 {
				t.Errorf("exit code %d", code)
			}
			if strings.Contains(r.stderr.String(), "S3cr3t") {
				t.Errorf("the log shows a password: %s", r.stderr)
			}
		})
	}
	var stored int
	if err := p.db.QueryRow(t.Context(), `select count(*) from messaging_outbox where messaging_outbox::text like '%S3cr3t%'`).Scan(&stored); err != nil || stored > 0 {
		t.Errorf("%d rows hold a password, %v", stored, err)
	}
}

// A rotated password of the database is used by the next connection, without restart.
func TestDatabasePasswordRotates(t *testing.T) {
	t.Parallel()
	p := newPlant(t)
	secret := filepath.Join(t.TempDir(), "url")
	write := func(address string) {
		t.Helper()
		if err := os.WriteFile(secret, []byte(address+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	address := databaseUser(t, p.db, "S3cr3t-1")
	write(address)
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal("the address does not parse")
	}
	env := append([]string{"RELAY_DATABASE_URL=file:" + secret}, p.env[1:]...)
	r := start(t, env, "run", "--config", p.file(t))
	r.address(t)
	p.add(t, "email-work", 1)
	brokertest.Eventually(t, 20*time.Second, "the first row is published", func() bool { return p.count(t, "PUBLISHED") == 1 })

	write(withUser(t, address, u.User.Username(), "S3cr3t-2"))
	for _, sql := range []string{
		`alter role ` + u.User.Username() + ` password 'S3cr3t-2'`,
		`select pg_terminate_backend(pid) from pg_stat_activity where usename = '` + u.User.Username() + `'`,
	} {
		if _, err := p.db.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	p.add(t, "email-work", 1)
	brokertest.Eventually(t, 30*time.Second, "the second row is published with the new password", func() bool { return p.count(t, "PUBLISHED") == 2 })
	if strings.Contains(r.stderr.String(), "S3cr3t") {
		t.Errorf("the log shows a password: %s", r.stderr)
	}
}

// databaseUser makes a user with this password and all rights in the test's schema, and gives its address.
func databaseUser(t *testing.T, db *dbtest.DB, password string) string {
	t.Helper()
	long := brokertest.Name(t, "")
	name := "u_" + long[len(long)-12:]
	for _, sql := range []string{
		`create role ` + name + ` login password '` + password + `'`,
		`grant usage on schema ` + db.Schema + ` to ` + name,
		`grant all on all tables in schema ` + db.Schema + ` to ` + name,
		`grant all on all sequences in schema ` + db.Schema + ` to ` + name,
	} {
		if _, err := db.Exec(t.Context(), sql); err != nil {
			t.Fatalf("make a user: %v", err)
		}
	}
	t.Cleanup(func() {
		for _, sql := range []string{`drop owned by ` + name, `drop role ` + name} {
			if _, err := db.Exec(context.WithoutCancel(t.Context()), sql); err != nil {
				t.Errorf("drop the user: %v", err)
			}
		}
	})
	return withUser(t, db.URL(), name, password)
}
