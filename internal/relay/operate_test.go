package relay_test

import (
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/backend-skeleton/relay/internal/dbtest"
	"github.com/backend-skeleton/relay/internal/outbox"
	"github.com/backend-skeleton/relay/internal/relay"
	"github.com/backend-skeleton/relay/messaging"
)

// poisoned has the broker refuse one row for its form until the returned function is called.
func (b *bundle) poisoned(bad func(id messaging.MessageID) bool) (heal func()) {
	var healed atomic.Bool
	b.broker.answer = func(_ string, id messaging.MessageID, _ int) (messaging.PublishResult, bool) {
		if !healed.Load() && bad(id) {
			return rejected(messaging.CategoryValidation, messaging.CodeRecordRefused, messaging.Transmitted), false
		}
		return confirmed(), true
	}
	return func() { healed.Store(true) }
}

func (b *bundle) target(id uuid.UUID) outbox.Target {
	b.t.Helper()
	t := outbox.Target{MessageID: id}
	if err := b.db.QueryRow(b.t.Context(), `select version from messaging_outbox where message_id = $1`, id).Scan(&t.Version); err != nil {
		b.t.Fatal(err)
	}
	return t
}

// operate does a verb to one row as an operator does: it looks and asks again while a relay has the row.
func (b *bundle) operate(verb outbox.Verb, id uuid.UUID) outbox.Operated {
	b.t.Helper()
	store := outbox.New(b.db.As(b.t, dbtest.Operator), outbox.Config{})
	var got outbox.Operated
	wait(b.t, string(verb)+" to be taken", func() bool {
		answers, err := store.Operate(b.t.Context(), verb, []outbox.Target{b.target(id)}, "a test", "tester")
		if err != nil || len(answers) != 1 {
			b.t.Fatalf("%s: %v, %v", verb, answers, err)
		}
		got = answers[0]
		return got.Result != outbox.InFlight && got.Result != outbox.Changed
	})
	return got
}

func (b *bundle) isParked(id uuid.UUID) func() bool {
	return func() bool {
		var parked bool
		err := b.db.QueryRow(b.t.Context(), `select status = 'PARKED' from messaging_outbox where message_id = $1`, id).Scan(&parked)
		return err == nil && parked
	}
}

func theRow(id uuid.UUID) func(messaging.MessageID) bool {
	return func(m messaging.MessageID) bool { return m.String() == id.String() }
}

// A dead head holds its key until an operator skips it; the key goes on then, and the dead one goes out before what is
// younger once it is redriven.
func TestB36_AKeyGoesOnWhenItsDeadHeadIsSkipped(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ids := b.add(3, 1)
	heal := b.poisoned(theRow(ids[0]))
	b.start()
	wait(t, "the head to be parked", b.isParked(ids[0]))
	b.until(map[string]int{"PARKED": 1, "HELD": 2})
	if got := b.operate(outbox.Skip, ids[0]); got.Result != outbox.Done || got.State != outbox.Parked {
		t.Fatalf("skip: %+v", got)
	}
	b.until(map[string]int{"PARKED": 1, "PUBLISHED": 2})
	heal()
	if got := b.operate(outbox.Redrive, ids[0]); got.Result != outbox.Done || got.State != outbox.RetryableFailure {
		t.Fatalf("redrive: %+v", got)
	}
	b.until(map[string]int{"PUBLISHED": 3})
	var audited int
	if err := b.db.QueryRow(t.Context(), `select count(*) from messaging_audit where message_id = $1 and reason = 'a test' and actor = 'tester'`, ids[0]).Scan(&audited); err != nil || audited != 2 {
		t.Errorf("%d audit rows, %v, want 2", audited, err)
	}
}

// A redriven head goes before the rows that wait behind it, and they keep their order.
func TestARedrivenHeadGoesFirst(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ids := b.add(30, 1)
	heal := b.poisoned(theRow(ids[4]))
	b.start()
	wait(t, "the head to be parked", b.isParked(ids[4]))
	b.until(map[string]int{"PARKED": 1, "PUBLISHED": 4, "HELD": 25})
	heal()
	if got := b.operate(outbox.Redrive, ids[4]); got.Result != outbox.Done {
		t.Fatalf("redrive: %+v", got)
	}
	b.until(map[string]int{"PUBLISHED": 30})
	b.inOrder(ids)
}

// A row that was parked before its turn came and then redriven waits for the rows before it, which were never sent.
func TestARowRedrivenBeforeItsTurnWaitsForIt(t *testing.T) {
	t.Parallel()
	for _, prefix := range []bool{false, true} {
		b := setup(t)
		b.broker.prefix = prefix
		control := func(statement string) {
			if _, err := b.db.Exec(t.Context(), statement); err != nil {
				t.Fatal(err)
			}
		}
		control(`insert into messaging_control (scope, name, verb, owner) values ('destination', 'orders', 'PAUSE', 'a')`)
		ids := b.add(6, 1)
		b.start()
		wait(t, "the relay to serve the destination", func() bool {
			var served bool
			err := b.db.QueryRow(t.Context(), `select exists (select from messaging_outbox_relay where state = 'RUNNING' and 'orders' = any(serves))`).Scan(&served)
			return err == nil && served
		})
		for _, id := range []uuid.UUID{ids[2], ids[4]} {
			if got := b.operate(outbox.Park, id); got.Result != outbox.Done {
				t.Fatalf("park: %+v", got)
			}
			if got := b.operate(outbox.Redrive, id); got.Result != outbox.Done {
				t.Fatalf("redrive: %+v", got)
			}
		}
		control(`delete from messaging_control`)
		b.until(map[string]int{"PUBLISHED": 6})
		b.inOrder(ids)
	}
}

// A row that was parked before any relay read it holds its key all the same: the claim that reads what stands behind it
// tells of the change.
func TestARowParkedUnseenHoldsItsKey(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.config.Lease, b.config.Poll = time.Hour, 10*time.Second // so that nothing else does
	park := func() {
		tx, err := b.db.Begin(t.Context())
		if err != nil {
			t.Error(err)
			return
		}
		defer func() { _ = tx.Rollback(t.Context()) }()
		const add = `select messaging_outbox_add('orders', 'order.created', 'shop', '{}', 'k0')`
		var parked, younger uuid.UUID
		if err := tx.QueryRow(t.Context(), add).Scan(&parked); err != nil {
			t.Error(err)
			return
		}
		if err := tx.QueryRow(t.Context(), add).Scan(&younger); err != nil {
			t.Error(err)
			return
		}
		var result string
		err = tx.QueryRow(t.Context(), `select result from messaging_outbox_operate('PARK', array[$1::uuid], array[0], 'a test', 'tester')`, parked).Scan(&result)
		if err != nil || result != string(outbox.Done) {
			t.Errorf("park: %s, %v", result, err)
			return
		}
		if err := tx.Commit(t.Context()); err != nil {
			t.Error(err)
		}
	}
	var once sync.Once
	b.broker.answer = func(string, messaging.MessageID, int) (messaging.PublishResult, bool) {
		once.Do(park) // the lane is busy, and read again at once
		return confirmed(), true
	}
	b.add(1, 1)
	b.start()
	b.until(map[string]int{"PUBLISHED": 1, "PARKED": 1, "HELD": 1})
}

// Parked in doubt is redriven in doubt, and a parked row that an operator set aside holds its key.
func TestParkAndRetryByAnOperator(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.config.Destinations[0].Attempts = 100
	b.config.Destinations[0].Backoff = relay.Backoff{Initial: time.Hour, Max: time.Hour, NoJitter: true}
	ids := b.add(2, 1)
	var ready atomic.Bool
	b.broker.answer = func(_ string, id messaging.MessageID, _ int) (messaging.PublishResult, bool) {
		if theRow(ids[0])(id) && !ready.Load() {
			return rejected(messaging.CategoryTransientInfrastructure, messaging.CodeNacked, messaging.Transmitted), false
		}
		return confirmed(), true
	}
	b.start()
	b.until(map[string]int{"RETRYABLE_FAILURE": 1, "HELD": 1})
	if got := b.operate(outbox.Park, ids[0]); got.Result != outbox.Done || got.State != outbox.Parked {
		t.Fatalf("park: %+v", got)
	}
	b.until(map[string]int{"PARKED": 1, "HELD": 1})
	if got := b.operate(outbox.Redrive, ids[0]); got.Result != outbox.Done || got.State != outbox.Ambiguous {
		t.Fatalf("redrive of a row that was parked under a relay's lease: %+v, want AMBIGUOUS", got)
	}
	b.until(map[string]int{"AMBIGUOUS": 1, "HELD": 1})
	wait(t, "the next attempt to be far away", func() bool {
		var far bool
		err := b.db.QueryRow(t.Context(), `select next_attempt_at > clock_timestamp() and attempts = 1 from messaging_outbox where message_id = $1`, ids[0]).Scan(&far)
		return err == nil && far
	})
	ready.Store(true)
	if got := b.operate(outbox.Retry, ids[0]); got.Result != outbox.Done {
		t.Fatalf("retry: %+v", got)
	}
	b.until(map[string]int{"PUBLISHED": 2})
	b.inOrder(ids)
}

// An operator who leaves the transaction open does not take the lanes from the relays: the server ends the session, and
// the rows go out.
func TestAnOperatorWhoLeavesDoesNotKeepTheLanes(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.config.Lease = 6 * time.Second
	ids := b.add(1, 0)
	heal := b.poisoned(theRow(ids[0]))
	b.start()
	wait(t, "the row to be parked", b.isParked(ids[0]))
	heal()
	seen := b.target(ids[0])
	left, err := b.db.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer left.Rollback(t.Context()) // the server has ended it
	var result string
	if err := left.QueryRow(t.Context(), `select result from messaging_outbox_operate('REDRIVE', array[$1::uuid], array[$2::integer], 'left open')`,
		seen.MessageID, seen.Version).Scan(&result); err != nil || result != "DONE" {
		t.Fatalf("redrive: %s, %v", result, err)
	}
	b.add(5, 5)
	b.until(map[string]int{"PARKED": 1, "PUBLISHED": 5})
	wait(t, "the redrive to be possible again", func() bool {
		answers, err := outbox.New(b.db.As(t, dbtest.Operator), outbox.Config{}).Operate(t.Context(), outbox.Redrive, []outbox.Target{seen}, "again", "tester")
		return err == nil && answers[0].Result == outbox.Done
	})
	b.until(map[string]int{"PUBLISHED": 6})
}

// Of many who redrive one row at the same time, one does, and nobody gets an error.
func TestB44_RedriveAskedManyTimesIsDoneOnce(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ids := b.add(1, 0)
	heal := b.poisoned(theRow(ids[0]))
	b.start()
	wait(t, "the row to be parked", b.isParked(ids[0]))
	heal()
	seen := b.target(ids[0])
	store := outbox.New(b.db.As(t, dbtest.Operator), outbox.Config{})
	var done atomic.Int32
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			answers, err := store.Operate(t.Context(), outbox.Redrive, []outbox.Target{seen}, "again", "tester")
			if err != nil || len(answers) != 1 {
				t.Errorf("redrive: %v, %v", answers, err)
			} else if answers[0].Result == outbox.Done {
				done.Add(1)
			}
		})
	}
	all.Wait()
	if done.Load() != 1 {
		t.Errorf("%d redrove the row, want 1", done.Load())
	}
	b.until(map[string]int{"PUBLISHED": 1})
	if n := len(b.broker.all()); n != 1 {
		t.Errorf("the broker has %d messages, want 1", n)
	}
	if got := b.operate(outbox.Redrive, ids[0]); got.Result != outbox.NotApplicable || got.State != outbox.Published {
		t.Errorf("redrive of a published row: %+v", got)
	}
}

// One row that cannot go keeps no other of its batch, nor any later batch.
func TestB45_OneBadItemDoesNotFreezeTheBatch(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ids := b.add(15, 0)
	heal := b.poisoned(func(messaging.MessageID) bool { return true })
	if _, err := b.db.Exec(t.Context(), `select messaging_outbox_register('{gone}')`); err != nil {
		t.Fatal(err)
	}
	var odd uuid.UUID
	if err := b.db.QueryRow(t.Context(), `select messaging_outbox_add('gone', 'order.created', 'shop', '{}')`).Scan(&odd); err != nil {
		t.Fatal(err)
	}
	if got := b.operate(outbox.Park, odd); got.Result != outbox.Done {
		t.Fatalf("park: %+v", got)
	}
	b.start()
	b.until(map[string]int{"PARKED": 16})
	heal()
	store := outbox.New(b.db.As(t, dbtest.Operator), outbox.Config{})
	redrive := func(ids []uuid.UUID) []outbox.Result {
		targets, results := []outbox.Target{}, []outbox.Result{}
		for _, id := range ids {
			targets = append(targets, b.target(id))
		}
		answers, err := store.Operate(t.Context(), outbox.Redrive, targets, "mended", "tester")
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range answers {
			results = append(results, a.Result)
		}
		return results
	}
	want := slices.Repeat([]outbox.Result{outbox.Done}, 10)
	want[4] = outbox.Unserved
	first := slices.Insert(slices.Clone(ids[:9]), 4, odd)
	if got := redrive(first); !slices.Equal(got, want) {
		t.Errorf("results are %v, want %v", got, want)
	}
	var code string
	if err := b.db.QueryRow(t.Context(), `select last_failure_code from messaging_outbox where message_id = $1`, odd).Scan(&code); err != nil || code != "UNSERVED" || !b.isParked(odd)() {
		t.Errorf("the odd row has code %q, %v, want to be parked with UNSERVED", code, err)
	}
	b.until(map[string]int{"PARKED": 7, "PUBLISHED": 9})
	redrive(ids[9:14])
	b.until(map[string]int{"PARKED": 2, "PUBLISHED": 14})
}
