package acceptance

import (
	"bytes"
	"context"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/backend-skeleton/relay/client"
	"github.com/backend-skeleton/relay/internal/brokertest"
	"github.com/backend-skeleton/relay/internal/dbtest"
	"github.com/backend-skeleton/relay/messaging"
)

type profiles map[messaging.DestinationName]messaging.Profile

func (p profiles) Profile(name messaging.DestinationName) (messaging.Profile, bool) {
	profile, known := p[name]
	return profile, known
}

// The wake-up never fails the business: a message with everything at its limit is committed, announced by an empty
// notification, and sent.
func TestB57_ALargeMessageIsAnnouncedByASmallNotification(t *testing.T) {
	t.Parallel()
	w := newWorld(t, withDatabase(dbtest.OwnDatabase()), withKafka(false, brokertest.TopicConfig("max.message.bytes", "4194304")))
	name := strings.Repeat("界", 160)
	w.kafkaTo(name, w.topic)
	w.destinationFile(name)["payload"] = m{"max-bytes": "4MiB", "reason": "as its topic"}
	capture := w.capture(kafkaDestination)
	w.exec(`create table business (n int)`)
	heard := w.listen()
	p := w.start()
	p.address()

	c, err := client.New(client.Config{
		Producer: "shop", Wake: w.writers, Profiles: profiles{messaging.DestinationName(name): {MaxBytes: 4 << 20}},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	outbox, err := client.NewOutbox(c, messaging.Destination[string]{
		Name: messaging.DestinationName(name), Type: messaging.MessageType("a." + strings.Repeat("b", 238)), Version: 1,
	})
	if err != nil {
		t.Fatal(err)
	}
	texts := map[string]string{}
	for _, header := range []string{"a", "b", "c"} {
		texts[header] = strings.Repeat("é", 1700)
	}
	headers, err := messaging.NewHeaders(texts)
	if err != nil {
		t.Fatal(err)
	}
	body := strings.Repeat("😀", 512<<10) // 2 MiB
	var id messaging.MessageID
	err = c.InTx(t.Context(), w.db.Pool, func(ctx context.Context, tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `insert into business values (1)`); err != nil {
			return err
		}
		id, err = outbox.Enqueue(ctx, tx, messaging.Envelope[string]{Headers: headers, Payload: body}, nil)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	select {
	case payload := <-heard:
		if payload != "" {
			t.Errorf("the notification carries %d bytes", len(payload))
		}
	case <-time.After(20 * time.Second):
		t.Error("nobody was woken")
	}
	w.published(20*time.Second, 1)
	for _, msg := range capture.WaitFor(t, 10*time.Second, id.String()) {
		if want := `"` + body + `"`; string(msg.Body) != want {
			t.Errorf("%d bytes arrived, want %d, or others", len(msg.Body), len(want))
		}
		for header, text := range texts {
			if msg.Header(header) != text {
				t.Errorf("the header %s arrived changed", header)
			}
		}
	}
	if n := w.number(`select count(*) from business`); n != 1 {
		t.Errorf("%d business rows, want 1", n)
	}
	p.stillReady(name)
}

// listen gives the payloads of the notifications that relays are woken by.
func (w *world) listen() <-chan string {
	w.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	conn, err := pgx.Connect(ctx, w.db.URL())
	if err != nil {
		w.t.Fatal(err)
	}
	if _, err := conn.Exec(ctx, `listen messaging_outbox`); err != nil {
		w.t.Fatal(err)
	}
	heard, done := make(chan string, 16), make(chan struct{})
	go func() {
		defer close(done)
		for {
			n, err := conn.WaitForNotification(ctx)
			if err != nil {
				return
			}
			select {
			case heard <- n.Payload:
			default: // more than anybody asked for
			}
		}
	}()
	w.t.Cleanup(func() {
		cancel()
		<-done
		_ = conn.Close(context.Background())
	})
	return heard
}

// Statements that fail for their time, in the middle of a transaction too, leave no session behind that is stuck in it,
// and cost no row an attempt.
func TestB66_AFailedStatementPoisonsNoSession(t *testing.T) {
	t.Parallel()
	w := newWorld(t, withDatabase(dbtest.OwnDatabase()), withKafka(true), withRabbit(true))
	w.patient()
	w.set("database", m{"pool-max": 4})
	proxy := brokertest.NewProxy(t, w.databaseAddress())
	u, err := url.Parse(w.databaseURL(proxy.Addr()))
	if err != nil {
		t.Fatal("the database's address is not a URL")
	}
	q := u.Query()
	// What the relay does not set itself has this limit, as the role's own setting. It must hold for a start on a busy
	// machine, and end before the lock does.
	q.Set("statement_timeout", strconv.Itoa(count(50, 500)))
	u.RawQuery = q.Encode()
	w.env[0] = "RELAY_DATABASE_URL=" + u.String()
	var aborted, timedOut atomic.Int32
	proxy.Intercept(func(c brokertest.Chunk) brokertest.Verdict {
		if c.Direction == brokertest.ToClient {
			aborted.Add(int32(bytes.Count(c.Bytes, []byte("25P02"))))
			timedOut.Add(int32(bytes.Count(c.Bytes, []byte("57014"))))
		}
		return brokertest.Forward
	})
	captures := map[string]*brokertest.Capture{}
	ids := map[string][]string{}
	for _, d := range both {
		captures[d] = w.capture(d)
		ids[d] = w.insert(d, 10, 0)
	}
	p := w.start()
	w.published(20*time.Second, 20)
	// Answers are late, so that a lock finds rows on the wire whose outcomes it keeps out.
	w.kafkaProxy.Delay(300*time.Millisecond, brokertest.ToClient)
	w.rabbitProxy.Delay(300*time.Millisecond, brokertest.ToClient)
	locks, rows := count(10, 4), count(500, 200)
	for range locks {
		for _, d := range both {
			ids[d] = append(ids[d], w.insert(d, rows/locks/2, 10)...)
		}
		w.leased(t, 1)
		w.lockedOut(time.Second)
	}
	all := len(ids[kafkaDestination]) + len(ids[rabbitDestination])
	w.published(40*time.Second, all)
	if timedOut.Load() == 0 {
		t.Error("no statement of the relay failed: the test shows nothing")
	}
	if n := aborted.Load(); n > 0 {
		t.Errorf("%d statements met a session that was stuck in a failed transaction", n)
	}
	t.Logf("%d statements failed for their time", timedOut.Load())
	if n := w.number(`select count(*) from messaging_outbox where attempts <> 1 or ambiguous_attempts <> 0`); n != 0 {
		t.Errorf("%d rows paid for errors of the database", n)
	}
	for _, d := range both {
		captures[d].WaitFor(t, 10*time.Second, ids[d]...)
		once(t, captures[d], ids[d])
		p.stillReady(d)
	}
	inOrder(t, captures[kafkaDestination], ids[kafkaDestination])
}

// lockedOut locks the table against everybody for a while. The relay gives its own statements 5 s; those that have
// waited for half the lock are ended as their time limit would end them.
func (w *world) lockedOut(period time.Duration) {
	w.t.Helper()
	ctx := context.Background()
	err := pgx.BeginFunc(ctx, w.db.Pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `lock table messaging_outbox in access exclusive mode`); err != nil {
			return err
		}
		for range 2 {
			if _, err := tx.Exec(ctx, `select pg_sleep($1)`, period.Seconds()/2); err != nil {
				return err
			}
			if _, err := tx.Exec(ctx, `select pg_cancel_backend(pid) from pg_stat_activity
			  where datname = current_database() and pid <> pg_backend_pid() and wait_event_type = 'Lock'`); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		w.t.Fatal(err)
	}
}
