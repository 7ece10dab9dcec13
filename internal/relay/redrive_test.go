package relay_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/backend-skeleton/relay/internal/relay"
)

// deaf is a relay whose scout stands still in its look until the returned function is called: of the work of others it hears
// nothing, but it reads its lanes when it is poked.
type deaf struct {
	*bundle
	poke chan struct{}
	head uuid.UUID // parked and skipped
	lock pgx.Tx
}

// deafRelay has a key whose head was parked and skipped, so that the key goes on.
func deafRelay(t *testing.T) *deaf {
	t.Helper()
	d := &deaf{bundle: setup(t), poke: make(chan struct{})}
	d.config.Lease = 60 * time.Second // a renewal would tell of changes too
	ids := d.add(2, 1)
	d.head = ids[0]
	heal := d.poisoned(theRow(d.head))
	d.start(func(c *relay.Config) {
		c.Wake = func(ctx context.Context, wake func()) error {
			for {
				select {
				case <-d.poke:
					wake()
				case <-ctx.Done():
					return ctx.Err()
				}
			}
		}
	})
	wait(t, "the head to be parked", d.isParked(d.head))
	d.operate("SKIP", d.head)
	d.until(map[string]int{"PARKED": 1, "PUBLISHED": 1})
	heal()
	tx, err := d.db.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	d.lock = tx
	t.Cleanup(d.listen)
	if _, err := tx.Exec(t.Context(), `lock table messaging_control in access exclusive mode`); err != nil {
		t.Fatal(err)
	}
	wait(t, "the scout to stand still", func() bool {
		return d.waiting(`select count(*) from pg_locks where relation = 'messaging_control'::regclass and not granted`)
	})
	return d
}

func (d *deaf) waiting(sql string) bool {
	d.t.Helper()
	var n int
	if err := d.db.QueryRow(d.t.Context(), sql).Scan(&n); err != nil {
		d.t.Fatal(err)
	}
	return n > 0
}

// listen lets the scout go on.
func (d *deaf) listen() { _ = d.lock.Rollback(context.Background()) }

// stored waits until the broker has so many more messages than it had.
func (d *deaf) stored(n int) {
	d.t.Helper()
	wait(d.t, "the rows to be stored", func() bool {
		select {
		case d.poke <- struct{}{}:
		default:
		}
		return len(d.broker.all()) >= n
	})
}

// first fails where the younger row was stored before the redriven one.
func (d *deaf) first(younger uuid.UUID) {
	d.t.Helper()
	for _, s := range d.broker.all() {
		switch {
		case theRow(d.head)(s.id):
			return
		case theRow(younger)(s.id):
			d.t.Error("a younger row of its key overtook a redriven one")
			return
		}
	}
	d.t.Error("neither was stored")
}

// A redriven row comes back behind the back of the owner, who claims a younger row of its key next. The older one goes first.
func TestARedrivenRowGoesBeforeAYoungerOneThatIsClaimedAfterIt(t *testing.T) {
	t.Parallel()
	d := deafRelay(t)
	d.operate("REDRIVE", d.head)
	younger := d.add(1, 1)
	d.stored(2)
	d.listen()
	d.until(map[string]int{"PUBLISHED": 3})
	d.first(younger[0])
}

// The same, when the claim has read the younger row already and waits for the lane that the redrive holds.
func TestARedrivenRowGoesBeforeAYoungerOneWhoseClaimWaitedForIt(t *testing.T) {
	t.Parallel()
	d := deafRelay(t)
	target := d.target(d.head)
	redrive, err := d.db.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = redrive.Rollback(context.Background()) }()
	var result string
	if err := redrive.QueryRow(t.Context(), `select result from messaging_outbox_operate('REDRIVE', array[$1::uuid], array[$2::integer], 'a test', 'tester')`,
		target.MessageID, target.Version).Scan(&result); err != nil || result != "DONE" {
		t.Fatalf("redrive: %s, %v", result, err)
	}
	// A slow machine must not end this session for standing still.
	if _, err := redrive.Exec(t.Context(), `set local idle_in_transaction_session_timeout = 0`); err != nil {
		t.Fatal(err)
	}
	younger := d.add(1, 1)
	d.poke <- struct{}{}
	wait(t, "the claim to wait for the lane", func() bool {
		return d.waiting(`select count(*) from pg_stat_activity where wait_event_type = 'Lock' and query like '%ClaimPending%' and pid in (
		  select pid from pg_locks where relation = 'messaging_outbox_lane'::regclass)`)
	})
	if err := redrive.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	d.stored(2)
	d.listen()
	d.until(map[string]int{"PUBLISHED": 3})
	d.first(younger[0])
}
