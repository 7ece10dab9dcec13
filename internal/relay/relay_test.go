package relay_test

import (
	"context"
	"fmt"
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
	"github.com/backend-skeleton/relay/messaging/transport"
)

// fakeBroker stores what it confirms; answer decides per message, by its key and the try.
type fakeBroker struct {
	prefix bool
	answer func(key string, id messaging.MessageID, try int) (r messaging.PublishResult, stored bool)
	delay  time.Duration

	mu     sync.Mutex
	tries  map[messaging.MessageID]int
	stored []stored
	down   bool
	muted  []func()
	late   []func(messaging.PublishResult) // the same, with another answer
	sizes  []int                           // of the calls
	open   int                             // calls now
	most   int                             // calls at one time
	mute   bool
}

type stored struct {
	id  messaging.MessageID
	key string
}

func newFakeBroker() *fakeBroker { return &fakeBroker{tries: map[messaging.MessageID]int{}} }

func (b *fakeBroker) Capabilities(context.Context, transport.Endpoint) (messaging.Capabilities, error) {
	return messaging.Capabilities{BrokerAcknowledgement: true, KeyedOrdering: true}, nil
}

func (b *fakeBroker) Publisher(context.Context, []transport.Endpoint) (transport.Publisher, error) {
	return fakePublisher{b}, nil
}

func (b *fakeBroker) Subscribe(context.Context, transport.Subscription, transport.Sink) (transport.Consumer, error) {
	return nil, messaging.ErrCapabilityUnavailable
}

func (b *fakeBroker) Inspect(context.Context, []transport.Endpoint) ([]transport.Drift, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.down {
		return nil, messaging.ErrBrokerUnavailable
	}
	return nil, nil
}

func (b *fakeBroker) Close(context.Context) error { return nil }

type fakePublisher struct{ b *fakeBroker }

func (p fakePublisher) KeyPrefix(transport.Endpoint) bool { return p.b.prefix }

func (p fakePublisher) Close(context.Context) error { return nil }

func (p fakePublisher) Publish(ctx context.Context, _ transport.Endpoint, ms []transport.Message, done func(int, messaging.PublishResult)) {
	b := p.b
	b.set(func() {
		b.sizes, b.open = append(b.sizes, len(ms)), b.open+1
		b.most = max(b.most, b.open)
	})
	defer b.set(func() { b.open-- })
	if b.delay > 0 {
		select {
		case <-time.After(b.delay): // the broker's own time to answer
		case <-ctx.Done():
		}
	}
	broken := map[string]bool{}
	for i, m := range ms {
		key := string(m.Key)
		if b.prefix && broken[key] && !m.NullKey {
			done(i, rejected(messaging.CategoryTransientInfrastructure, messaging.CodePredecessorNotStored, messaging.NotTransmitted))
			continue
		}
		r, ok, muted := b.take(key, m.ID)
		if !ok {
			broken[key] = true
		}
		if muted {
			b.mu.Lock()
			b.muted = append(b.muted, func() { done(i, r) })
			b.late = append(b.late, func(r messaging.PublishResult) { done(i, r) })
			b.mu.Unlock()
			continue
		}
		done(i, r)
	}
}

func (b *fakeBroker) take(key string, id messaging.MessageID) (messaging.PublishResult, bool, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.down {
		return rejected(messaging.CategoryTransientInfrastructure, messaging.CodeBrokerUnreachable, messaging.NotTransmitted), false, false
	}
	b.tries[id]++
	r, ok := confirmed(), true
	if b.answer != nil {
		r, ok = b.answer(key, id, b.tries[id])
	}
	if ok {
		b.stored = append(b.stored, stored{id, key})
	}
	return r, r.Completion == messaging.Confirmed, b.mute
}

func (b *fakeBroker) set(f func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	f()
}

func (b *fakeBroker) all() []stored {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.stored)
}

func confirmed() messaging.PublishResult {
	return messaging.PublishResult{
		Completion: messaging.Confirmed, Routing: messaging.RoutingNotApplicable,
		Evidence: messaging.Evidence{Transmission: messaging.Transmitted, BrokerAccepted: true, Level: messaging.LevelReplicationOrPersistenceAck},
	}
}

func rejected(c messaging.Category, code string, t messaging.Transmission) messaging.PublishResult {
	return messaging.PublishResult{
		Completion: messaging.Rejected, Routing: messaging.RoutingNotApplicable, Evidence: messaging.Evidence{Transmission: t, Level: messaging.LevelNone},
		Failure: messaging.NewFailure(c, code, ""),
	}
}

func ambiguous() messaging.PublishResult {
	return messaging.PublishResult{
		Completion: messaging.Ambiguous, Routing: messaging.RoutingUnknown,
		Evidence: messaging.Evidence{Transmission: messaging.MayHaveBeenTransmitted, Level: messaging.LevelNone},
		Failure:  messaging.NewFailure(messaging.CategoryAmbiguous, messaging.CodeConnectionLost, ""),
	}
}

type bundle struct {
	t      *testing.T
	db     *dbtest.DB
	broker *fakeBroker
	config relay.Config
}

func setup(t *testing.T) *bundle {
	t.Helper()
	b := &bundle{t: t, db: dbtest.New(t), broker: newFakeBroker()}
	b.config = relay.Config{
		Brokers: map[string]relay.Broker{"b": {Adapter: b.broker}},
		Destinations: []relay.Destination{{
			Name: "orders", Broker: "b", Ordered: true, Block: true, Keyless: true, Attempts: 3, Timeout: 500 * time.Millisecond,
			Backoff: relay.Backoff{Initial: 20 * time.Millisecond, Max: 50 * time.Millisecond},
		}},
		Lease: 2 * time.Second, Poll: 50 * time.Millisecond, Drain: 5 * time.Second,
		Breaker: relay.BreakerConfig{OpenFor: 50 * time.Millisecond, OpenMax: 200 * time.Millisecond},
	}
	return b
}

// start runs a relay; the returned function stops it and waits.
func (b *bundle) start(mend ...func(*relay.Config)) (r *relay.Relay, stop func()) {
	b.t.Helper()
	c := b.config
	c.Destinations = slices.Clone(c.Destinations)
	c.Store = outbox.New(b.db.Pool, outbox.Config{LeaseTTL: c.Lease})
	for _, f := range mend {
		f(&c)
	}
	r, err := relay.New(c)
	if err != nil {
		b.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		select {
		case err := <-done:
			if err != nil {
				b.t.Errorf("run: %v", err)
			}
		case <-time.After(c.Drain + 5*time.Second):
			b.t.Errorf("the relay did not stop")
		}
	}
	b.t.Cleanup(stop)
	return r, stop
}

// add inserts n rows over k keys ("" for none) and gives their ids in order.
func (b *bundle) add(n, keys int) (ids []uuid.UUID) {
	b.t.Helper()
	rows, err := b.db.Query(b.t.Context(), `
	  select messaging_outbox_add('orders', 'order.created', 'shop', '{}', case when $2 > 0 then 'k' || i % greatest($2, 1) end)
	    from generate_series(1, $1) i`, n, keys)
	if err != nil {
		b.t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var id uuid.UUID
		if err := rows.Scan(&id); err != nil {
			b.t.Fatal(err)
		}
		ids = append(ids, id)
	}
	return ids
}

func (b *bundle) counts() map[string]int {
	b.t.Helper()
	rows, err := b.db.Query(context.Background(), `select status::text, count(*) from messaging_outbox group by 1`)
	if err != nil {
		b.t.Fatal(err)
	}
	defer rows.Close()
	c := map[string]int{}
	for rows.Next() {
		var s string
		var n int
		if err := rows.Scan(&s, &n); err != nil {
			b.t.Fatal(err)
		}
		c[s] = n
	}
	return c
}

// until waits for the statuses to be exactly these.
func (b *bundle) until(want map[string]int) {
	b.t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	var got map[string]int
	for time.Now().Before(deadline) {
		if got = b.counts(); fmt.Sprint(got) == fmt.Sprint(want) {
			return
		}
		time.Sleep(10 * time.Millisecond) // between two looks at the table
	}
	b.t.Fatalf("rows are %v, want %v", got, want)
}

// inOrder fails where the first store of a key's rows breaks their order.
func (b *bundle) inOrder(ids []uuid.UUID) {
	b.t.Helper()
	at := map[messaging.MessageID]int{}
	for i, id := range ids {
		m, err := messaging.MessageIDFromUUID(id)
		if err != nil {
			b.t.Fatal(err)
		}
		at[m] = i
	}
	last, seen := map[string]int{}, map[messaging.MessageID]bool{}
	for _, s := range b.broker.all() {
		if seen[s.id] {
			continue
		}
		seen[s.id] = true
		if i, ok := at[s.id]; !ok {
			b.t.Errorf("a stored id was never inserted")
		} else if s.key != "" {
			if prev, ok := last[s.key]; ok && i < prev {
				b.t.Errorf("key %s: row %d was stored after row %d", s.key, i, prev)
			}
			last[s.key] = i
		}
	}
}

func TestRowsArePublishedOnceAndInOrder(t *testing.T) {
	t.Parallel()
	for _, prefix := range []bool{false, true} {
		for _, keys := range []int{0, 1, 7} {
			t.Run(fmt.Sprintf("prefix=%t keys=%d", prefix, keys), func(t *testing.T) {
				t.Parallel()
				b := setup(t)
				b.broker.prefix = prefix
				ids := b.add(300, keys)
				b.start()
				b.until(map[string]int{"PUBLISHED": 300})
				if got := len(b.broker.all()); got != 300 {
					t.Errorf("%d messages stored, want 300", got)
				}
				b.inOrder(ids)
			})
		}
	}
}

func TestB01_SeveralRelaysPublishEachRowOnce(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.broker.prefix = true
	ids := b.add(1000, 50)
	for range 4 {
		b.start()
	}
	b.until(map[string]int{"PUBLISHED": 1000})
	if got := len(b.broker.all()); got != 1000 {
		t.Errorf("%d messages stored, want 1000", got)
	}
	b.inOrder(ids)
	var attempts int
	if err := b.db.QueryRow(t.Context(), `select max(attempts) from messaging_outbox`).Scan(&attempts); err != nil || attempts != 1 {
		t.Errorf("up to %d attempts, %v, want 1", attempts, err)
	}
}

func TestRefusedAndAmbiguousRowsHoldTheirKeyAlone(t *testing.T) {
	t.Parallel()
	for _, prefix := range []bool{false, true} {
		for name, first := range map[string]messaging.PublishResult{
			"refused":   rejected(messaging.CategoryTransientInfrastructure, messaging.CodeNacked, messaging.Transmitted),
			"ambiguous": ambiguous(),
		} {
			t.Run(fmt.Sprintf("%s prefix=%t", name, prefix), func(t *testing.T) {
				t.Parallel()
				b := setup(t)
				b.config.Breaker.Failures = 1000
				b.broker.prefix = prefix
				ids := b.add(60, 3)
				heads := map[messaging.MessageID]bool{}
				for _, id := range ids[:2] { // of two of the three keys
					m, _ := messaging.MessageIDFromUUID(id)
					heads[m] = true
				}
				b.broker.answer = func(_ string, id messaging.MessageID, try int) (messaging.PublishResult, bool) {
					if heads[id] && try <= 2 {
						return first, first.Completion == messaging.Ambiguous && try == 2
					}
					return confirmed(), true
				}
				b.start()
				b.until(map[string]int{"PUBLISHED": 60})
				b.inOrder(ids)
				var attempts, doubt int
				err := b.db.QueryRow(t.Context(), `select sum(attempts), sum(ambiguous_attempts) from messaging_outbox`).Scan(&attempts, &doubt)
				if err != nil || attempts != 60+4 {
					t.Errorf("%d attempts in all, %v, want 64", attempts, err)
				}
				if want := map[string]int{"refused": 0, "ambiguous": 4}[name]; doubt != want {
					t.Errorf("%d ambiguous attempts, want %d", doubt, want)
				}
			})
		}
	}
}

func TestExhaustedHeadIsParkedAndHoldsItsKey(t *testing.T) {
	t.Parallel()
	for _, block := range []bool{true, false} {
		t.Run(fmt.Sprintf("block=%t", block), func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.config.Breaker.Failures = 1000
			b.config.Destinations[0].Block = block
			ids := b.add(4, 2)
			bad, _ := messaging.MessageIDFromUUID(ids[0])
			b.broker.answer = func(_ string, id messaging.MessageID, _ int) (messaging.PublishResult, bool) {
				if id == bad {
					return rejected(messaging.CategoryTransientInfrastructure, messaging.CodeNacked, messaging.Transmitted), false
				}
				return confirmed(), true
			}
			b.start()
			if !block {
				b.until(map[string]int{"PUBLISHED": 3, "PARKED": 1})
				return
			}
			b.until(map[string]int{"PUBLISHED": 2, "PARKED": 1, "HELD": 1})
			// An operator skips the head: its key goes on.
			_, err := b.db.Exec(t.Context(), `with s as (update messaging_outbox set skipped_at = now() where status = 'PARKED' returning lane)
			  update messaging_outbox_lane l set changes = changes + 1 from s where s.lane = l.lane`)
			if err != nil {
				t.Fatal(err)
			}
			b.until(map[string]int{"PUBLISHED": 3, "PARKED": 1})
		})
	}
}

func TestB11_ABrokerThatIsDownBurnsNoAttempts(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.broker.down = true
	ids := b.add(100, 5)
	r, _ := b.start()
	wait(t, "the breaker to open", func() bool {
		h := r.Health()
		return len(h.Destinations) == 1 && !h.Destinations[0].Ready && h.Destinations[0].Reason == messaging.CodeBrokerUnreachable
	})
	if got := b.counts(); got["PENDING"] != 100 {
		t.Errorf("rows are %v, want 100 PENDING", got)
	}
	b.broker.set(func() { b.broker.down = false })
	b.until(map[string]int{"PUBLISHED": 100})
	b.inOrder(ids)
	var attempts int
	if err := b.db.QueryRow(t.Context(), `select max(attempts) from messaging_outbox`).Scan(&attempts); err != nil || attempts != 1 {
		t.Errorf("up to %d attempts, %v, want 1", attempts, err)
	}
}

func TestALateConfirmationEndsTheDoubt(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.broker.mute = true
	b.add(6, 2)
	b.start()
	b.until(map[string]int{"AMBIGUOUS": 2, "HELD": 4})
	b.broker.set(func() {
		b.broker.mute = false
		for _, answer := range b.broker.muted {
			answer()
		}
	})
	b.until(map[string]int{"PUBLISHED": 6})
	if got := len(b.broker.all()); got != 6 {
		t.Errorf("%d messages stored, want 6: a row was sent again while its answer was open", got)
	}
}

func TestARelayThatDiedIsTakenOver(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ids := b.add(20, 4)
	dead := outbox.New(b.db.Pool, outbox.Config{LeaseTTL: 100 * time.Millisecond})
	if err := dead.Register(t.Context(), []string{"orders"}); err != nil {
		t.Fatal(err)
	}
	work, err := dead.FindWork(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var lanes []int32
	for _, w := range work {
		lanes = append(lanes, w.Lane)
	}
	leases, err := dead.Take(t.Context(), lanes, len(lanes), false)
	if err != nil {
		t.Fatal(err)
	}
	var claims []outbox.LaneClaim
	for _, l := range leases {
		claims = append(claims, outbox.LaneClaim{Lane: l.Lane, Epoch: l.Epoch, Limit: 3})
	}
	claimed, err := dead.ClaimPending(t.Context(), "orders", claims, 1<<20)
	if err != nil || len(claimed) == 0 {
		t.Fatalf("claimed %d, %v", len(claimed), err)
	}
	b.start()
	b.until(map[string]int{"PUBLISHED": 20})
	b.inOrder(ids)
	var lost int
	if err := b.db.QueryRow(t.Context(), `select count(*) from messaging_outbox where ambiguous_attempts = 1`).Scan(&lost); err != nil || lost != len(claimed) {
		t.Errorf("%d rows were in doubt, %v, want %d", lost, err, len(claimed))
	}
}

func TestScheduledAndLateRows(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.start()
	tx, err := b.db.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(context.Background()) }()
	const insert = `select messaging_outbox_add('orders', 'order.created', 'shop', '{}', available_at => now() + $1::interval)`
	if _, err := tx.Exec(t.Context(), insert, "0"); err != nil {
		t.Fatal(err)
	}
	if _, err := b.db.Exec(t.Context(), insert, "500 milliseconds"); err != nil {
		t.Fatal(err)
	}
	b.add(1, 0)
	b.until(map[string]int{"PUBLISHED": 1, "SCHEDULED": 1})
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.until(map[string]int{"PUBLISHED": 3})
}

func TestACleanStopGivesEverythingBack(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.broker.delay = 100 * time.Millisecond
	b.add(500, 0)
	_, stop := b.start()
	wait(t, "the first messages", func() bool { return len(b.broker.all()) > 0 })
	stop()
	var owned, windows, open int
	err := b.db.QueryRow(t.Context(), `select count(owner), count(window_lo), (select count(*) from messaging_outbox where status not in ('PENDING', 'PUBLISHED'))
	  from messaging_outbox_lane`).Scan(&owned, &windows, &open)
	if err != nil || owned != 0 || windows != 0 || open != 0 {
		t.Errorf("after a stop: %d lanes owned, %d windows, %d rows in doubt, %v", owned, windows, open, err)
	}
	if got, want := b.counts()["PUBLISHED"], len(b.broker.all()); got != want {
		t.Errorf("%d rows PUBLISHED, %d stored", got, want)
	}
}

func TestRunUntilEmpty(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.add(100, 3)
	c := b.config
	c.Store = outbox.New(b.db.Pool, outbox.Config{LeaseTTL: c.Lease})
	r, err := relay.New(c)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.RunUntilEmpty(t.Context(), 20*time.Second); err != nil {
		t.Fatal(err)
	}
	if got := b.counts(); got["PUBLISHED"] != 100 {
		t.Errorf("rows are %v, want 100 PUBLISHED", got)
	}
}

func TestLocalRefusalsParkTheRowAlone(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.config.Destinations[0].Keyless = false
	b.config.Destinations[0].Types = map[messaging.MessageType]bool{"order.created": true}
	b.config.Destinations[0].MaxBytes = 100
	b.add(2, 1)
	for _, sql := range []string{
		`select messaging_outbox_add('orders', 'order.created', 'shop', '{}')`,
		`select messaging_outbox_add('orders', 'order.other', 'shop', '{}', 'x')`,
		`select messaging_outbox_add('orders', 'order.created', 'shop', convert_to(repeat('x', 101), 'utf8'), 'y')`,
	} {
		if _, err := b.db.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	b.start()
	b.until(map[string]int{"PUBLISHED": 2, "PARKED": 3})
	rows, err := b.db.Query(t.Context(), `select last_failure_code from messaging_outbox where status = 'PARKED' order by 1`)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	var codes []string
	for rows.Next() {
		var c string
		if err := rows.Scan(&c); err != nil {
			t.Fatal(err)
		}
		codes = append(codes, c)
	}
	if want := []string{"KEYLESS_ON_KEY", "TOO_LARGE", "TYPE_NOT_IN_CATALOGUE"}; !slices.Equal(codes, want) {
		t.Errorf("codes %v, want %v", codes, want)
	}
}

func wait(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(15 * time.Second)
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain for %s", what)
		}
		time.Sleep(5 * time.Millisecond) // between two looks
	}
}

func TestAPausedDestinationWaits(t *testing.T) {
	t.Parallel()
	b := setup(t)
	exec := func(sql string) {
		t.Helper()
		if _, err := b.db.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	exec(`insert into messaging_control (scope, name, verb, owner, reason) values ('destination', 'orders', 'PAUSE', 'a', 'maintenance'), ('destination', 'orders', 'PAUSE', 'b', 'x')`)
	r, _ := b.start()
	wait(t, "the pause to be seen", func() bool { h := r.Health(); return len(h.Destinations) == 1 && h.Destinations[0].Paused })
	b.add(5, 0)
	exec(`delete from messaging_control where owner = 'a'`)
	never(t, time.Second, "a row was published while one pause stood", func() bool { return len(b.broker.all()) > 0 })
	exec(`update messaging_control set expires_at = now()`)
	b.until(map[string]int{"PUBLISHED": 5})
}

func TestLateCommitsAreCounted(t *testing.T) {
	t.Parallel()
	b := setup(t)
	var late atomic.Int64
	b.start(func(c *relay.Config) {
		c.Hooks.LateCommit = func(_ messaging.DestinationName, rows int) { late.Add(int64(rows)) }
	})
	tx, err := b.db.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(context.Background()) }()
	if _, err := tx.Exec(t.Context(), `select messaging_outbox_add('orders', 'order.created', 'shop', '{}', 'k0')`); err != nil {
		t.Fatal(err)
	}
	b.add(1, 1)
	b.until(map[string]int{"PUBLISHED": 1})
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.until(map[string]int{"PUBLISHED": 2})
	if n := late.Load(); n != 1 {
		t.Errorf("%d late commits counted, want 1", n)
	}
}

// never fails when the condition comes true within the period.
func never(t *testing.T, period time.Duration, what string, bad func() bool) {
	t.Helper()
	for end := time.Now().Add(period); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if bad() {
			t.Fatal(what)
		}
	}
}

func TestLanesThatCrashedGoSoloUntilTheyAreTrusted(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.broker.delay = 5 * time.Millisecond
	ids := b.add(60, 8)
	store := outbox.New(b.db.Pool, outbox.Config{})
	if err := store.Register(t.Context(), []string{"orders"}); err != nil {
		t.Fatal(err)
	}
	if _, err := b.db.Exec(t.Context(), `update messaging_outbox_lane set crashes = 9`); err != nil {
		t.Fatal(err)
	}
	b.start()
	b.until(map[string]int{"PUBLISHED": 60})
	b.inOrder(ids)
	var lanes, crashes, windows int
	err := b.db.QueryRow(t.Context(), `select (select count(distinct lane) from messaging_outbox), sum(crashes), count(*) filter (where solo)
	  from messaging_outbox_lane l where exists (select from messaging_outbox o where o.lane = l.lane)`).Scan(&lanes, &crashes, &windows)
	if err != nil || crashes != 0 || windows != 0 {
		t.Errorf("%d crashes and %d solo windows are left, %v, want none", crashes, windows, err)
	}
	b.broker.set(func() {
		solo := 0
		for _, n := range b.broker.sizes {
			if n == 1 {
				solo++
			}
		}
		if solo < lanes {
			t.Errorf("%d calls of one row, want at least one for each of %d lanes", solo, lanes)
		}
	})
}

func TestARowThatKillsItsRelayIsParkedAlone(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.config.Destinations[0].Ordered = false
	ids := b.add(1, 0)
	if _, err := b.db.Exec(t.Context(), `select messaging_outbox_register('{orders}')`); err != nil {
		t.Fatal(err)
	}
	for i := range 3 { // a relay leases it alone and dies, three times
		dead := outbox.New(b.db.Pool, outbox.Config{LeaseTTL: time.Millisecond})
		var lane int32
		if err := b.db.QueryRow(t.Context(), `select lane from messaging_outbox where message_id = $1`, ids[0]).Scan(&lane); err != nil {
			t.Fatal(err)
		}
		leases, err := dead.Take(t.Context(), []int32{lane}, 1, true)
		if err != nil || len(leases) != 1 {
			t.Fatalf("took %d lanes, %v", len(leases), err)
		}
		l := leases[0]
		if l.OpenWindow {
			if _, _, err := dead.TakeOver(t.Context(), l, false, 3); err != nil {
				t.Fatal(err)
			}
		}
		claim := []outbox.LaneClaim{{Lane: lane, Epoch: l.Epoch, Limit: 1, Solo: true}}
		rows, err := dead.ClaimPending(t.Context(), "orders", claim, 1<<20)
		if i > 0 {
			rows, err = dead.ClaimDeferred(t.Context(), "orders", claim, false, nil, 1<<20)
		}
		if err != nil || len(rows) != 1 {
			t.Fatalf("death %d: claimed %d rows, %v", i+1, len(rows), err)
		}
	}
	b.start()
	b.until(map[string]int{"PARKED": 1})
	var code string
	var crashes, attempts int
	err := b.db.QueryRow(t.Context(), `select last_failure_code, crash_attempts, attempts from messaging_outbox`).Scan(&code, &crashes, &attempts)
	if err != nil || code != messaging.CodeRelayLost || crashes != 3 || attempts != 0 {
		t.Errorf("parked as %s after %d crashes and %d attempts, %v, want RELAY_LOST after 3 and 0", code, crashes, attempts, err)
	}
	if n := len(b.broker.all()); n != 0 {
		t.Errorf("it was published %d times", n)
	}
}

func TestRunUntilEmptyDoesNotWaitBehindAParkedHead(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.add(2, 1)
	_, err := b.db.Exec(t.Context(), `
	  with r as (select message_id, row_number() over (order by seq) as n from messaging_outbox)
	  update messaging_outbox o set status = case when n = 1 then 'PARKED' else 'RETRYABLE_FAILURE' end::messaging_outbox_state,
	         next_attempt_at = case when n = 2 then now() end
	    from r where r.message_id = o.message_id`)
	if err != nil {
		t.Fatal(err)
	}
	c := b.config
	c.Store = outbox.New(b.db.Pool, outbox.Config{LeaseTTL: c.Lease})
	r, err := relay.New(c)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.RunUntilEmpty(t.Context(), 20*time.Second); err != nil {
		t.Errorf("run until empty: %v", err)
	}
	if got := b.counts(); got["PARKED"] != 1 || got["RETRYABLE_FAILURE"] != 1 {
		t.Errorf("rows are %v", got)
	}
}
