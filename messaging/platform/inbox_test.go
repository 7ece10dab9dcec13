package platform_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/backend-skeleton/relay/client"
	"github.com/backend-skeleton/relay/internal/brokertest"
	"github.com/backend-skeleton/relay/internal/dbtest"
	"github.com/backend-skeleton/relay/messaging"
	"github.com/backend-skeleton/relay/messaging/platform"
)

// withInbox is the file of a consumer that is bound to its inbox.
func withInbox(t *testing.T, retry string) string {
	t.Helper()
	text := edit(t, consuming, "      concurrency: 4\n", "      concurrency: 4\n      external-side-effect: INBOX_TRANSACTIONAL\n")
	text = edit(t, text, "retry: {mode: PAUSE_PARTITION, max-attempts: 3, initial-delay: 1ms, max-delay: 2ms}", retry)
	if !strings.Contains(retry, "PAUSE_PARTITION") && !strings.Contains(retry, "BLOCKING") { // the others let messages overtake
		text = edit(t, text, ", guarantees: {ordering: KEY}", "")
		text = edit(t, text, "      max-in-flight-per-partition: 4\n", "")
	}
	return text
}

// C31, B52: a try that failed is not seen as done, and nothing of it is left: neither its effect nor what it has put into
// the outbox. In every retry mode: three calls, one effect, one message, that of the third try.
func TestC31_AFailedTryIsNotSeenAsDone(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"PAUSE_PARTITION", "BLOCKING", "INLINE", "RETRY_DESTINATION"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			db := dbtest.New(t)
			if _, err := db.Exec(t.Context(), `create table effect (n int)`); err != nil {
				t.Fatal(err)
			}
			p, b := service(t, withInbox(t, "retry: {mode: "+mode+", max-attempts: 5, initial-delay: 1ms, max-delay: 2ms}"))
			inbox, err := client.NewInbox(db.Pool, client.InboxConfig{Consumer: "order-projection"})
			if err != nil {
				t.Fatal(err)
			}
			writer, err := client.New(client.Config{Producer: "orders", Profiles: p, Codecs: p.Codecs()})
			if err != nil {
				t.Fatal(err)
			}
			outbox, err := client.NewOutbox(writer, orderPlaced)
			if err != nil {
				t.Fatal(err)
			}
			calls := 0
			_, err = platform.Consume(p, "order-projection", platform.On(orderPlaced, client.InboxHandler(inbox,
				func(ctx context.Context, tx pgx.Tx, d messaging.Delivery[placed]) error {
					calls++
					if _, err := tx.Exec(ctx, `insert into effect values ($1)`, d.Payload.N); err != nil {
						return err
					}
					follow := orderPlaced.New(placed{N: calls})
					follow.OrderingKey = "a"
					if _, err := outbox.Enqueue(ctx, tx, follow, nil); err != nil {
						return err
					}
					if calls < 3 {
						return errors.New("not yet")
					}
					return nil
				})))
			if err != nil {
				t.Fatal(err)
			}
			publisher, err := platform.NewPublisher(p, orderPlaced)
			if err != nil {
				t.Fatal(err)
			}
			run(t, p)
			e := orderPlaced.New(placed{N: 7})
			e.OrderingKey = "a"
			for range 2 { // the second one is a duplicate
				if _, err := publisher.Publish(t.Context(), e, nil); err != nil {
					t.Fatal(err)
				}
			}
			brokertest.Eventually(t, 20*time.Second, "one effect, all settled", func() bool {
				var effects, stages int
				if err := db.QueryRow(t.Context(), `select count(*) from effect where n = 7`).Scan(&effects); err != nil {
					t.Fatal(err)
				}
				for _, stage := range []string{"orders.order-projection.retry.1", "orders.order-projection.retry.2"} {
					stages += len(b.Left(stage, "order-projection"))
				}
				return effects == 1 && len(b.Left("orders", "order-projection")) == 0 && (mode != "RETRY_DESTINATION" || stages == 0)
			})
			var rows, effects int
			var payload string
			if err := db.QueryRow(t.Context(), `select count(*), min(convert_from(payload, 'UTF8')), (select count(*) from effect) from messaging_outbox`).Scan(&rows, &payload, &effects); err != nil {
				t.Fatal(err)
			}
			if rows != 1 || payload != `{"n":3}` || effects != 1 || calls != 3 {
				t.Errorf("%d outbox rows, the first is %s; %d effects; %d calls", rows, payload, effects, calls)
			}
			if n := len(b.Stored("dlq")); n != 0 {
				t.Errorf("%d dead letters", n)
			}
		})
	}
}

// An inbox whose database is away spends no attempt: nothing is dead-lettered, readiness says so, and it goes on.
func TestAnInboxWithoutDatabaseIsWaitedFor(t *testing.T) {
	t.Parallel()
	db := dbtest.New(t)
	proxy := brokertest.NewProxy(t, db.Addr())
	p, b := service(t, withInbox(t, "retry: {mode: PAUSE_PARTITION, max-attempts: 1}"))
	pool, err := pgxpool.New(t.Context(), db.URLVia(proxy.Addr()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	inbox, err := client.NewInbox(pool, client.InboxConfig{Consumer: "order-projection", LockWait: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	_, err = platform.Consume(p, "order-projection", platform.On(orderPlaced, client.InboxHandler(inbox,
		func(context.Context, pgx.Tx, messaging.Delivery[placed]) error { return nil })))
	if err != nil {
		t.Fatal(err)
	}
	publisher, err := platform.NewPublisher(p, orderPlaced)
	if err != nil {
		t.Fatal(err)
	}
	proxy.Down()
	run(t, p)
	if _, err := publisher.Publish(t.Context(), orderPlacedFor("a"), nil); err != nil {
		t.Fatal(err)
	}
	brokertest.Eventually(t, 20*time.Second, "readiness to name the outage", func() bool { return strings.Contains(page(p, "/readyz"), `"reason": "outage"`) })
	proxy.Up(t)
	brokertest.Eventually(t, 60*time.Second, "it is settled", func() bool { return len(b.Left("orders", "order-projection")) == 0 })
	if n := len(b.Stored("dlq")); n != 0 {
		t.Errorf("%d dead letters", n)
	}
}
