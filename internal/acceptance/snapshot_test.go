package acceptance

import (
	"context"
	"errors"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/backend-skeleton/relay/client"
	"github.com/backend-skeleton/relay/internal/brokertest"
	"github.com/backend-skeleton/relay/internal/dbtest"
	"github.com/backend-skeleton/relay/internal/testenv"
	"github.com/backend-skeleton/relay/messaging"
)

// While an old snapshot keeps every dead row, rows are published about as fast as before, and the operator is told who
// keeps it.
func TestB55_AnOldTransactionDoesNotStopTheQueue(t *testing.T) {
	t.Parallel()
	w := newWorld(t, withDatabase(dbtest.OwnDatabase()), withKafka(false))
	w.patient()
	account, err := url.Parse(w.relayURL)
	if err != nil {
		t.Fatal("the relay's address is not a URL")
	}
	w.exec(`grant pg_read_all_stats to ` + account.User.Username()) // others' sessions are not shown without it
	p := w.start()
	p.address()
	n := count(5000, 500)
	done := 0
	drain := func() time.Duration {
		began := time.Now()
		w.insert(kafkaDestination, n, 50)
		done += n
		w.published(60*time.Second, done)
		return time.Since(began)
	}
	drain() // connections and plans are there
	before := min(drain(), drain())

	old, err := w.db.BeginTx(t.Context(), pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = old.Rollback(context.WithoutCancel(t.Context())) }()
	var one int
	if err := old.QueryRow(t.Context(), `select 1 from messaging_outbox limit 1`).Scan(&one); err != nil {
		t.Fatal(err)
	}
	for began := time.Now(); time.Since(began) < time.Duration(count(180, 5))*time.Second; {
		drain()
	}
	after := min(drain(), drain(), drain())
	if dead := w.number(`select count(*) from messaging_outbox where status <> 'PUBLISHED'`); dead > 0 {
		t.Errorf("a backlog of %d rows", dead)
	}
	// 60 % of the throughput, where nobody else uses the machine.
	if testenv.Full() && after > before*10/6 {
		t.Errorf("%d rows take %v, before the old transaction %v", n, after, before)
	}
	brokertest.Eventually(t, 30*time.Second, "the age of the snapshot to be told", func() bool {
		return p.metric("relay_snapshot_age_seconds", `reason="SESSION"`) > 1
	})
}

// What a handler puts into the outbox is there only if that very try commits.
func TestB52_MessagesOfAFailedTryAreNotSent(t *testing.T) {
	t.Parallel()
	w := newWorld(t, withKafka(false))
	capture := w.capture(kafkaDestination)
	w.start()
	inbox, err := client.NewInbox(w.db.Pool, client.InboxConfig{Consumer: "billing"})
	if err != nil {
		t.Fatal(err)
	}
	c, err := client.New(client.Config{Producer: "billing"})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	outbox, err := client.NewOutbox(c, messaging.Destination[int]{Name: kafkaDestination, Type: "invoice.made", Version: 1})
	if err != nil {
		t.Fatal(err)
	}
	failed := errors.New("not yet")
	m := client.Message{ID: messaging.NewMessageID(), Type: "order.created", Hash: messaging.PayloadHash("sha-256:" + strings.Repeat("0", 64))}
	var last messaging.MessageID
	for try := 1; try <= 3; try++ {
		outcome, err := inbox.Handle(t.Context(), m, func(ctx context.Context, tx pgx.Tx) error {
			e := messaging.Envelope[int]{OrderingKey: "a", Payload: try}
			if last, err = outbox.Enqueue(ctx, tx, e, nil); err != nil {
				return err
			}
			if try < 3 {
				return failed
			}
			return nil
		})
		if (try < 3) != errors.Is(err, failed) {
			t.Fatalf("try %d: %v, %v", try, outcome, err)
		}
	}
	w.published(20*time.Second, 1)
	got := capture.WaitFor(t, 20*time.Second, last.String())
	if len(got) != 1 || string(got[0].Body) != "3" {
		t.Errorf("%d messages were captured, the first is %s", len(got), got[0].Body)
	}
}
