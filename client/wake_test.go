package client_test

import (
	"context"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/backend-skeleton/relay/client"
	"github.com/backend-skeleton/relay/internal/dbtest"
	"github.com/backend-skeleton/relay/messaging"
)

// TestB57_WakeUpNeverFailsTheBusiness: a message with everything at its limit is committed and announced by a notification
// without content; and where nobody can be woken, the business transaction does not notice.
func TestB57_WakeUpNeverFailsTheBusiness(t *testing.T) {
	t.Parallel()
	dbtest.Majors(t, func(t *testing.T, major int) {
		db := dbtest.New(t, dbtest.Major(major), dbtest.OwnDatabase())
		heard := listen(t, db)
		kv := map[string]string{}
		for _, name := range []string{"a", "b", "c"} {
			kv[name] = strings.Repeat("é", 1700)
		}
		headers, err := messaging.NewHeaders(kv)
		if err != nil {
			t.Fatal(err)
		}
		d := messaging.Destination[order]{
			Name:    messaging.DestinationName(strings.Repeat("界", 160)),
			Type:    messaging.MessageType("a." + strings.Repeat("b", 238)),
			Version: 1,
		}
		raised := profiles{d.Name: {MaxBytes: 4 << 20}}
		big := messaging.Envelope[order]{Headers: headers, Payload: order{Text: strings.Repeat("😀", 512*1024)}}
		if _, err := db.Exec(t.Context(), `create table business (n int)`); err != nil {
			t.Fatal(err)
		}
		for _, wake := range []*pgxpool.Pool{db.Pool, unreachable(t), nil} {
			c := newClient(t, client.Config{Profiles: raised, Wake: wake, Logger: slog.New(slog.DiscardHandler)})
			outbox := newOutbox(t, c, d)
			err := c.InTx(t.Context(), db.Pool, func(ctx context.Context, tx pgx.Tx) error {
				if _, err := tx.Exec(ctx, `insert into business values (1)`); err != nil {
					return err
				}
				_, err := outbox.Enqueue(ctx, tx, big, nil)
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
			if wake == db.Pool {
				if payload := <-heard; payload != "" {
					t.Errorf("the notification carries %d bytes", len(payload))
				}
			}
		}
		if n := one[int](t, db, `select count(*) from business, messaging_outbox where octet_length(payload) > 2000000`); n != 9 {
			t.Errorf("%d pairs of rows, want 3 x 3", n)
		}
	})
}

// TestB56_WakingMakesNoCommitWait: commits that notify take turns in one queue of the whole server. Those of writers do not:
// whatever they insert is announced by a session of its own, and ten thousand messages at once no more often than one.
func TestB56_WakingMakesNoCommitWait(t *testing.T) {
	t.Parallel()
	db := dbtest.New(t, dbtest.OwnDatabase(), dbtest.MaxConns(10))
	heard := listenFor(t, db, func(n *pgconn.Notification) uint32 { return n.PID })
	wake, err := pgxpool.New(t.Context(), db.URL())
	if err != nil {
		t.Fatal(err)
	}
	defer wake.Close()
	c := newClient(t, client.Config{Wake: wake})
	outbox := newOutbox(t, c, messaging.Destination[order]{Name: "orders", Type: "order.created", Version: 1})
	var mu sync.Mutex // guards the map
	wrote := map[uint32]bool{}
	write := func(n int) {
		err := c.InTx(t.Context(), db.Pool, func(ctx context.Context, tx pgx.Tx) error {
			mu.Lock()
			wrote[tx.Conn().PgConn().PID()] = true
			mu.Unlock()
			for range n {
				if _, err := outbox.Enqueue(ctx, tx, messaging.Envelope[order]{}, nil); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	}
	write(2000)
	notifier := <-heard
	var writers sync.WaitGroup
	for range 8 {
		writers.Go(func() {
			for range 50 {
				write(1)
			}
		})
	}
	writers.Wait()
	c.Close()
	if _, err := db.Exec(t.Context(), `select pg_notify('messaging_outbox', '')`); err != nil { // behind all others
		t.Fatal(err)
	}
	pids := []uint32{notifier}
	for !wrote[pids[len(pids)-1]] {
		pids = append(pids, <-heard)
	}
	if n := one[int](t, db, `select count(*) from messaging_outbox`); n != 2400 {
		t.Errorf("%d rows, want 2400", n)
	}
	if len(pids) > 401 { // one for each transaction, and the last, at the very most
		t.Errorf("%d notifications", len(pids))
	}
	if wrote[notifier] {
		t.Error("a writer's transaction notified")
	}
}

func TestWakeUpsAreCoalesced(t *testing.T) {
	t.Parallel()
	db := dbtest.New(t, dbtest.OwnDatabase())
	heard := listen(t, db)
	c := newClient(t, client.Config{Wake: db.Pool})
	began := time.Now()
	var calls sync.WaitGroup
	for range 8 {
		calls.Go(func() {
			for range 1000 {
				c.Woken()
			}
		})
	}
	calls.Wait()
	c.Close()
	took := time.Since(began)
	c.Woken() // after Close: nothing
	if _, err := db.Exec(t.Context(), `select pg_notify('messaging_outbox', 'end')`); err != nil {
		t.Fatal(err)
	}
	notifications := 0
	for payload := range heard {
		if payload == "end" {
			break
		}
		notifications++
	}
	if most := int(took/(5*time.Millisecond)) + 2; notifications < 1 || notifications > most {
		t.Errorf("8000 calls in %v became %d notifications, want 1 to %d", took, notifications, most)
	}
}

// TestEveryCallIsHeard: a call that comes while a notification is being sent is not lost in it.
func TestEveryCallIsHeard(t *testing.T) {
	t.Parallel()
	db := dbtest.New(t, dbtest.OwnDatabase())
	heard := listen(t, db)
	c := newClient(t, client.Config{Wake: db.Pool})
	for round := range 20 {
		c.Woken() // from the second round on, while the sender still rests
		select {
		case <-heard:
		case <-time.After(10 * time.Second):
			t.Fatalf("call %d woke nobody", round)
		}
	}
}

// TestWokenDoesNotBlock holds every connection of the wake pool.
func TestWokenDoesNotBlock(t *testing.T) {
	t.Parallel()
	db := dbtest.New(t, dbtest.MaxConns(1))
	c := newClient(t, client.Config{Wake: db.Pool})
	conn, err := db.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	returned := make(chan struct{})
	go func() {
		defer close(returned)
		for range 100 {
			c.Woken()
		}
	}()
	select {
	case <-returned:
	case <-time.After(500 * time.Millisecond): // half of what one notification waits for a connection
		t.Error("Woken waits for a connection")
	}
}

// listen gives the payloads of the channel's notifications, in order.
func listen(t *testing.T, db *dbtest.DB) <-chan string {
	t.Helper()
	return listenFor(t, db, func(n *pgconn.Notification) string { return n.Payload })
}

// listenFor hears what a test wants to know of each notification.
func listenFor[T any](t *testing.T, db *dbtest.DB, what func(*pgconn.Notification) T) <-chan T {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), db.URL())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Exec(t.Context(), `listen messaging_outbox`); err != nil {
		t.Fatal(err)
	}
	heard := make(chan T, 100_000)
	ctx, cancel := context.WithCancel(context.Background())
	var reader sync.WaitGroup
	reader.Go(func() {
		defer close(heard)
		for {
			n, err := conn.WaitForNotification(ctx)
			if err != nil {
				return
			}
			heard <- what(n)
		}
	})
	t.Cleanup(func() {
		cancel()
		reader.Wait()
		_ = conn.Close(context.Background())
	})
	return heard
}

// unreachable is a pool to a port on which nobody listens.
func unreachable(t *testing.T) *pgxpool.Pool {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	_ = l.Close()
	pool, err := pgxpool.New(t.Context(), "postgres://nobody@"+addr+"/none?sslmode=disable")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}
