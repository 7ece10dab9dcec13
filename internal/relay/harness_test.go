package relay_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/backend-skeleton/relay/internal/brokertest"
	"github.com/backend-skeleton/relay/internal/dbtest"
	"github.com/backend-skeleton/relay/internal/outbox"
	"github.com/backend-skeleton/relay/internal/relay"
	"github.com/backend-skeleton/relay/messaging"
)

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
	c.Store = outbox.New(b.db.As(b.t, dbtest.Worker), outbox.Config{LeaseTTL: c.Lease})
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
	defer func() {
		if b.t.Failed() {
			b.t.Logf("rows are %v, want %v", b.counts(), want)
		}
	}()
	brokertest.Eventually(b.t, 20*time.Second, "the rows' statuses", func() bool { return fmt.Sprint(b.counts()) == fmt.Sprint(want) })
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

func wait(t *testing.T, what string, ok func() bool) {
	t.Helper()
	brokertest.Eventually(t, 15*time.Second, what, ok)
}

// never fails when the condition comes true within the period.
func never(t *testing.T, period time.Duration, what string, bad func() bool) {
	t.Helper()
	looks := time.NewTicker(10 * time.Millisecond)
	defer looks.Stop()
	for end := time.Now().Add(period); time.Now().Before(end); <-looks.C {
		if bad() {
			t.Fatal(what)
		}
	}
}
