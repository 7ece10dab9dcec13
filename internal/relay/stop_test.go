package relay_test

import (
	"testing"
	"time"

	"github.com/backend-skeleton/relay/internal/dbtest"
	"github.com/backend-skeleton/relay/internal/outbox"
	"github.com/backend-skeleton/relay/internal/relay"
)

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
	c.Store = outbox.New(b.db.As(t, dbtest.Worker), outbox.Config{LeaseTTL: c.Lease})
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
	c.Store = outbox.New(b.db.As(t, dbtest.Worker), outbox.Config{LeaseTTL: c.Lease})
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
