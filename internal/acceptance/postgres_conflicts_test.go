package acceptance

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/backend-skeleton/relay/internal/brokertest"
	"github.com/backend-skeleton/relay/internal/dbtest"
)

// Whatever isolation the database gives by default, relays work at their own, and no row pays for a conflict.
func TestB64_ASerializableDefaultCostsNoAttempt(t *testing.T) {
	t.Parallel()
	w := newWorld(t, withDatabase(dbtest.OwnDatabase()), withKafka(false), withRabbit(false))
	w.patient()
	w.exec(`do $$ begin execute format('alter database %I set default_transaction_isolation = ''serializable''', current_database()); end $$`)
	captures := map[string]*brokertest.Capture{kafkaDestination: w.capture(kafkaDestination), rabbitDestination: w.capture(rabbitDestination)}
	var relays []*process
	for range 4 {
		relays = append(relays, w.start())
	}
	var mu sync.Mutex
	ids := map[string][]string{}
	var wait sync.WaitGroup
	for n := range 4 {
		wait.Go(func() {
			for i := range count(500, 40) {
				d := both[i%2]
				id := w.addSerializable(d, fmt.Sprint("k", n))
				mu.Lock()
				ids[d] = append(ids[d], id)
				mu.Unlock()
			}
		})
	}
	wait.Wait()
	w.published(60*time.Second, len(ids[kafkaDestination])+len(ids[rabbitDestination]))
	if n := w.number(`select count(*) from messaging_outbox where attempts <> 1`); n != 0 {
		t.Errorf("%d rows have not exactly one attempt", n)
	}
	for _, d := range both {
		captures[d].WaitFor(t, 10*time.Second, ids[d]...)
		once(t, captures[d], ids[d])
	}
	for _, p := range relays {
		if strings.Contains(p.out.String(), "40001") {
			t.Error("a relay complains of a conflict")
		}
	}
}

// addSerializable enqueues at the database's own isolation, again where that loses a conflict.
func (w *world) addSerializable(destination, key string) (id string) {
	ctx := context.Background()
	for {
		conn, err := pgx.Connect(ctx, w.db.URL())
		if err != nil {
			w.t.Error(err)
			return ""
		}
		err = conn.QueryRow(ctx, addMessage, destination, "", "", key, "").Scan(&id)
		_ = conn.Close(ctx)
		var conflict *pgconn.PgError
		if errors.As(err, &conflict) && conflict.Code == "40001" {
			continue
		}
		if err != nil {
			w.t.Error(err)
		}
		return id
	}
}

// Those who write many rows at once lock them in one order, so that none is made the victim of another.
func TestB67_BatchesDoNotLockEachOtherOut(t *testing.T) {
	t.Parallel()
	w := newWorld(t, withDatabase(dbtest.OwnDatabase(), dbtest.MaxConns(12)), withKafka(false, brokertest.Partitions(4)))
	w.set("relay", m{"batch": 200, "retention": m{"published": "1m"}})
	var relays []*process
	for range 4 {
		relays = append(relays, w.start())
	}
	var sent, bulk atomic.Int64
	var wait sync.WaitGroup
	end := make(chan struct{})
	// What an operator's bulk work does: redrive, discard, purge, each over the rows in the order of their ids.
	locked := `with chosen as materialized (select message_id from messaging_outbox where %s order by message_id limit 500 for update) `
	for _, sql := range []string{
		fmt.Sprintf(locked, `status in ('PENDING', 'HELD', 'PUBLISHED')`) + `update messaging_outbox o set status = 'RETRYABLE_FAILURE', next_attempt_at = clock_timestamp(),
		   published_at = null, ambiguous_attempts = 0, version = version + 1 from chosen where o.message_id = chosen.message_id and o.ambiguous_attempts = 0 and random() < 0.2`,
		fmt.Sprintf(locked, `status in ('RETRYABLE_FAILURE', 'PENDING')`) + `update messaging_outbox o set status = 'PARKED', next_attempt_at = null, skipped_at = clock_timestamp(), version = version + 1
		   from chosen where o.message_id = chosen.message_id and random() < 0.2`,
		fmt.Sprintf(locked, `status = 'PUBLISHED'`) + `update messaging_outbox o set published_at = o.published_at - interval '10 minutes' from chosen where o.message_id = chosen.message_id`,
		fmt.Sprintf(locked, `status = 'PARKED'`) + `update messaging_outbox o set status = 'RETRYABLE_FAILURE', next_attempt_at = clock_timestamp(), skipped_at = null, version = version + 1
		   from chosen where o.message_id = chosen.message_id and o.ambiguous_attempts = 0`,
	} {
		wait.Go(func() {
			for {
				select {
				case <-end:
					return
				default:
				}
				tag, err := w.db.Exec(context.Background(), sql)
				if err != nil {
					t.Errorf("bulk work failed: %v", err)
					return
				}
				bulk.Add(tag.RowsAffected())
			}
		})
	}
	for until := time.Now().Add(time.Duration(count(120, 6)) * time.Second); time.Now().Before(until); {
		sent.Add(int64(len(w.insert(kafkaDestination, 250, 100))))
	}
	close(end)
	wait.Wait()
	t.Logf("%d rows inserted, %d changed by bulk work", sent.Load(), bulk.Load())
	if bulk.Load() == 0 {
		t.Error("the bulk work changed nothing: the test shows nothing")
	}
	brokertest.Eventually(t, 60*time.Second, "every row that can go to be sent", func() bool {
		return w.number(`select count(*) from messaging_outbox where status not in ('PUBLISHED', 'PARKED')`) == 0
	})
	for _, p := range relays { // their sessions tell the server's statistics at the latest when they end
		if code := p.stop(drain + 10*time.Second); code != 0 {
			t.Errorf("exit %d", code)
		}
	}
	brokertest.Eventually(t, 10*time.Second, "the relays' sessions to end", func() bool {
		return w.number(`select count(*) from pg_stat_activity where datname = current_database() and application_name like 'relay%'`) == 0
	})
	if n := w.number(`select deadlocks from pg_stat_database where datname = current_database()`); n != 0 {
		t.Errorf("%d deadlocks", n)
	}
}

// No time that an operator can write stops the others: infinite ones are refused, a far one is not due, none at all is
// due now.
func TestB71_NoTimeInARowStopsTheOthers(t *testing.T) {
	t.Parallel()
	w := newWorld(t, withKafka(false))
	ids := w.enqueue(`select messaging_outbox_add($1, 'order.created', 'shop', '{}', ordering_key => 'odd' || i, available_at => now() + interval '1 hour')::text
	  from generate_series(1, 4) i`, kafkaDestination)
	retryable := `update messaging_outbox set status = 'RETRYABLE_FAILURE', next_attempt_at = %s where message_id = $1`
	for i, value := range []string{`'infinity'`, `'-infinity'`} {
		_, err := w.db.Exec(context.Background(), fmt.Sprintf(retryable, value), ids[i])
		var refusal *pgconn.PgError
		if !errors.As(err, &refusal) || refusal.ConstraintName != "messaging_outbox_times_finite" {
			t.Errorf("%s: %v", value, err)
		}
	}
	w.exec(fmt.Sprintf(retryable, `'294276-12-31'`), ids[2])
	w.exec(fmt.Sprintf(retryable, `null`), ids[3])
	keyless := w.add(kafkaDestination, message{})
	if _, err := w.db.Exec(context.Background(), fmt.Sprintf(retryable, `null`), keyless); err == nil {
		t.Error("a row without key and without time was taken: no relay would find it")
	}
	p := w.start()
	brokertest.Eventually(t, 20*time.Second, "the row without a time to be sent", func() bool { return w.of(ids[3], "status") == "PUBLISHED" })
	w.othersFlow(kafkaDestination)
	if got := w.of(ids[2], "status"); got != "RETRYABLE_FAILURE" {
		t.Errorf("the row of a far time is %s", got)
	}
	var listed []struct{ MessageID, NextAttemptAt string }
	w.inboxctl(&listed, "outbox", "list", "--status", "RETRYABLE_FAILURE")
	if len(listed) != 1 || !strings.HasPrefix(listed[0].NextAttemptAt, "294276-12-31") {
		t.Errorf("listed: %+v", listed)
	}
	if code, body := p.get("/actuator/messaging/outbox"); code != 200 || !strings.Contains(body, `"retryableFailure": 1`) {
		t.Errorf("the page answers %d\n%s", code, body)
	}
}
