package relay_test

import (
	"errors"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/backend-skeleton/relay/internal/relay"
)

// Rows that somebody edited by hand are published or parked, and hold up nobody: neither the rows claimed with them nor other
// keys of their lane. What a relay could not read, or no message may hold, the table refuses.
func TestRowsEditedByHandHoldNobodyUp(t *testing.T) {
	t.Parallel()
	b := setup(t)
	add := func(key string) (id uuid.UUID) {
		t.Helper()
		if err := b.db.QueryRow(t.Context(), `select messaging_outbox_add('orders', 'order.created', 'shop', '{}', $1)`, key).Scan(&id); err != nil {
			t.Fatal(err)
		}
		return id
	}
	edit := func(id uuid.UUID, set string) error {
		_, err := b.db.Exec(t.Context(), `update messaging_outbox set `+set+` where message_id = $1`, id)
		return err
	}
	for _, set := range []string{
		`created_at = 'infinity'`, `created_at = '294276-12-31'`, `available_at = '-infinity'`, `occurred_at = 'infinity'`,
		`occurred_at = '4713-01-01 BC'`, `next_attempt_at = 'infinity'`, `published_at = '-infinity'`, `skipped_at = 'infinity'`,
		`first_ambiguous_at = 'infinity'`, `headers = '[]'`, `headers = 'null'`, `headers = '{"a": null}'`, `headers = '{"a": {"b": 1}}'`,
		`schema_version = -1`, `content_type = ''`, `message_type = ''`, `tenant = ''`, `ordering_key = ''`, `claim_check = '{}'`,
		`correlation_id = repeat('x', 100000)`, `status = 'SCHEDULED', next_attempt_at = null`, `status = 'PUBLISHED', published_at = null`,
		`status = 'HELD', ambiguous_attempts = 1`, `status = 'HELD', ordering_key = null`,
	} {
		var refused *pgconn.PgError
		if err := edit(add("refused"), set); !errors.As(err, &refused) || refused.Code != "23514" {
			t.Errorf("%s: %v, want it to be refused", set, err)
		}
	}
	names := map[uuid.UUID]string{}
	for i, set := range []string{
		`redrive_count = -1, redrive_id = gen_random_uuid()`, `redrive_count = 5`, `traceparent = 'x'`, `last_position = '', last_failure_code = ''`,
		`attempts = 2147483647, crash_attempts = 2147483647`, `attempts = -2147483648`, `crash_attempts = -1`, `version = -5`,
		`status = 'PUBLISHED', published_at = now()`, `status = 'PARKED'`, `status = 'PARKED', skipped_at = now(), next_attempt_at = now()`,
		`status = 'HELD'`, `status = 'HELD', next_attempt_at = now() + interval '1 hour'`, `status = 'RETRYABLE_FAILURE'`,
		`status = 'RETRYABLE_FAILURE', next_attempt_at = '0001-01-01 BC'`, `status = 'SCHEDULED', next_attempt_at = now()`,
		`status = 'AMBIGUOUS'`, `status = 'AMBIGUOUS', ambiguous_attempts = -1`, `message_id = message_id, destination = destination`,
		`ordering_key = null`, `ordering_key = 'another'`,
	} {
		key := fmt.Sprint("odd", i)
		id := add(key)
		add(key)
		names[id] = set
		if err := edit(id, set); err != nil {
			t.Errorf("%s: %v", set, err)
		}
	}
	b.add(100, 20)
	b.start()
	defer func() {
		if !t.Failed() {
			return
		}
		for id, set := range names {
			var status string
			if err := b.db.QueryRow(t.Context(), `select status from messaging_outbox where message_id = $1`, id).Scan(&status); err == nil {
				t.Logf("%s after %s", status, set)
			}
		}
	}()
	wait(t, "every row to be published, parked, or held by a parked one", func() bool {
		var open int
		err := b.db.QueryRow(t.Context(), `
		  select count(*) from messaging_outbox o where status not in ('PUBLISHED', 'PARKED') and not (status = 'HELD' and exists (
		    select from messaging_outbox h where h.ordering_key = o.ordering_key and h.status = 'PARKED' and h.skipped_at is null and h.seq < o.seq))`).Scan(&open)
		return err == nil && open == 0
	})
	for id, set := range names {
		if b.isParked(id)() && set != `status = 'PARKED'` && set != `status = 'PARKED', skipped_at = now(), next_attempt_at = now()` {
			t.Errorf("%s: parked, though the broker takes it", set)
		}
	}
}

// A lane whose window has a number that its owner did not write is let go and taken anew, and somebody hears of it.
func TestALaneWithAnOddNumberIsTakenAnew(t *testing.T) {
	t.Parallel()
	b := setup(t)
	var heard atomic.Int32
	b.start(func(c *relay.Config) {
		c.Hooks.Trouble = func(operation string, _ error) {
			if operation == "renew" {
				heard.Add(1)
			}
		}
	})
	ids := b.add(5, 1)
	b.until(map[string]int{"PUBLISHED": 5})
	var epoch, after int64
	const ask = `update messaging_outbox_lane set window_no = 9223372036854775807 where owner is not null returning epoch`
	if err := b.db.QueryRow(t.Context(), ask).Scan(&epoch); err != nil {
		t.Fatal(err)
	}
	ids = append(ids, b.add(5, 1)...)
	b.until(map[string]int{"PUBLISHED": 10})
	b.inOrder(ids)
	if err := b.db.QueryRow(t.Context(), `select max(epoch) from messaging_outbox_lane`).Scan(&after); err != nil || after <= epoch || heard.Load() == 0 {
		t.Errorf("epoch %d after %d, %v, told %d times", after, epoch, err, heard.Load())
	}
}
