package relay_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/backend-skeleton/relay/internal/outbox"
	"github.com/backend-skeleton/relay/internal/relay"
	"github.com/backend-skeleton/relay/messaging"
)

// The table refuses the outcome of one row for good. The others' are recorded, and that row is parked as one that may be
// delivered.
func TestARefusedOutcomeHoldsUpNoOther(t *testing.T) {
	t.Parallel()
	for name, guard := range map[string]string{
		"published": `new.status = 'PUBLISHED'`,
		"anything":  `new.status <> 'PENDING'`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.config.Destinations[0].Ordered = false
			b.add(50, 0)
			bad := b.add(1, 0)[0]
			b.add(49, 0)
			for _, sql := range []string{
				`create function refuse() returns trigger language plpgsql as $$ begin
				   if new.message_id = '` + bad.String() + `' and ` + guard + ` then raise exception 'no' using errcode = '22003'; end if; return new; end $$`,
				`create trigger refuse before update on messaging_outbox for each row execute function refuse()`,
			} {
				if _, err := b.db.Exec(t.Context(), sql); err != nil {
					t.Fatal(err)
				}
			}
			b.start()
			if name == "anything" {
				b.until(map[string]int{"PUBLISHED": 99, "PENDING": 1})
			} else {
				b.until(map[string]int{"PUBLISHED": 99, "PARKED": 1})
				var doubt int
				if err := b.db.QueryRow(t.Context(), `select ambiguous_attempts from messaging_outbox where status = 'PARKED'`).Scan(&doubt); err != nil || doubt != 1 {
					t.Errorf("%d ambiguous attempts, %v, want 1", doubt, err)
				}
			}
			b.add(20, 0) // the lanes go on
			wait(t, "later rows", func() bool { return b.counts()["PUBLISHED"] == 119 })
			if n := len(b.broker.all()); n != 120 {
				t.Errorf("%d messages stored, want 120: the row was sent again", n)
			}
		})
	}
}

// A row that was never sent, and of which nothing can be recorded, gives its place to others, also to those behind it in its
// lane where a claim takes one row alone.
func TestARowThatIsGivenUpLeavesItsPlace(t *testing.T) {
	t.Parallel()
	for _, ordered := range []bool{false, true} {
		t.Run(fmt.Sprintf("ordered=%t", ordered), func(t *testing.T) {
			t.Parallel()
			givenUp(t, ordered)
		})
	}
}

func givenUp(t *testing.T, ordered bool) {
	b := setup(t)
	b.config.Destinations[0].Ordered = ordered
	b.config.Destinations[0].MaxBytes = 100
	b.config.Brokers = map[string]relay.Broker{"b": {Adapter: b.broker, InFlight: 2}}
	for _, sql := range []string{
		`create function refuse() returns trigger language plpgsql as $$ begin
		   if octet_length(new.payload) > 100 then raise exception 'no' using errcode = '22003'; end if; return new; end $$`,
		`create trigger refuse before update on messaging_outbox for each row execute function refuse()`,
		`select messaging_outbox_add('orders', 'order.created', 'shop', convert_to(repeat('x', 101), 'utf8')) from generate_series(1, 2)`,
	} {
		if _, err := b.db.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	b.add(20, 0)
	b.start()
	b.until(map[string]int{"PUBLISHED": 20, "PENDING": 2})
}

// The table has the outcomes, and the answer to COMMIT is lost: they count as recorded, once, and no lease as lost.
func TestALostAnswerToCommitIsNoLostLease(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.config.Breaker.Failures = 1000
	b.config.Destinations[0].Ordered = false
	b.config.Destinations[0].Backoff = relay.Backoff{Initial: time.Hour, Max: time.Hour, NoJitter: true}
	b.broker.answer = func(string, messaging.MessageID, int) (messaging.PublishResult, bool) {
		return rejected(messaging.CategoryTransientInfrastructure, messaging.CodeNacked, messaging.Transmitted), false
	}
	b.add(3, 0)
	var cut, lost, recorded atomic.Int64
	b.start(func(c *relay.Config) {
		conf := b.db.Config().Copy()
		conf.ConnConfig.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := new(net.Dialer).DialContext(ctx, network, address)
			return &forgetful{Conn: conn, cut: &cut}, err
		}
		pool, err := pgxpool.NewWithConfig(t.Context(), conf)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(pool.Close)
		c.Store = outbox.New(pool, outbox.Config{LeaseTTL: c.Lease})
		c.Hooks.LostLease = func(_ messaging.DestinationName, n int) { lost.Add(int64(n)) }
		c.Hooks.Recorded = func(_ messaging.DestinationName, _ messaging.Completion, _ *messaging.Failure, _ string, n int) {
			recorded.Add(int64(n))
		}
	})
	wait(t, "the outcomes to be counted", func() bool { return recorded.Load()+lost.Load() >= 3 })
	b.until(map[string]int{"RETRYABLE_FAILURE": 3})
	if cut.Load() == 0 {
		t.Fatal("no answer was lost")
	}
	if l, r := lost.Load(), recorded.Load(); l != 0 || r != 3 {
		t.Errorf("%d outcomes counted as lost and %d as recorded, want 0 and 3", l, r)
	}
}

// forgetful loses the answer to the first COMMIT of refused rows' outcomes.
type forgetful struct {
	net.Conn
	cut   *atomic.Int64
	armed atomic.Bool
}

func (c *forgetful) Write(p []byte) (int, error) {
	if bytes.Contains(p, []byte("name: RecordOthers")) {
		c.armed.Store(true)
	}
	return c.Conn.Write(p)
}

func (c *forgetful) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if c.armed.Load() && bytes.Contains(p[:n], []byte("COMMIT\x00")) && c.cut.CompareAndSwap(0, 1) {
		return 0, errors.Join(io.ErrUnexpectedEOF, c.Close())
	}
	return n, err
}
