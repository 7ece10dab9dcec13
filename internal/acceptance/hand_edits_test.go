package acceptance

import (
	"fmt"
	"testing"
	"time"

	"github.com/backend-skeleton/relay/internal/brokertest"
)

// Lanes edited by hand go on: the owner who was robbed lets go, what nobody owns is taken again, and a window that points
// nowhere marks nothing.
func TestHandEdits_LanesGoOn(t *testing.T) {
	t.Parallel()
	for name, edit := range map[string]string{
		"owner who does not live":      `owner = gen_random_uuid()`,
		"owner without a lease":        `owner = gen_random_uuid(), lease_until = '-infinity'`,
		"owner with a far lease":       `owner = gen_random_uuid(), lease_until = '9999-01-01', epoch = epoch + 1`,
		"other epoch":                  `epoch = epoch + 1`,
		"other epoch and a far lease":  `epoch = epoch + 1, lease_until = '9999-01-01'`,
		"last epoch":                   `epoch = 9223372036854775807`,
		"epoch below zero":             `epoch = -5`,
		"low mark and changes too far": `low_seq = 9223372036854775807, changes = 9223372036854775807`,
		"window pointing nowhere":      `window_lo = 9223372036854770000, window_hi = 9223372036854775807, window_ids = array[gen_random_uuid()], owner = gen_random_uuid(), lease_until = '-infinity'`,
		"crashes at the end":           `window_lo = 1, window_hi = 0, crashes = 2147483647, owner = gen_random_uuid(), lease_until = '-infinity'`,
		"crashes below zero":           `crashes = -2147483648, window_lo = 5, window_hi = 5, owner = gen_random_uuid(), lease_until = '-infinity'`,
		"longest lease":                `lease_ttl = '1 day'`,
		"no owner":                     `owner = null`,
		"no owner and a far lease":     `owner = null, lease_until = '9999-01-01'`,
		"shortest lease":               `lease_ttl = '0'`,
		"number too far":               `window_no = 9223372036854775807`,
		"number set back":              `window_no = 0`,
		"number of a dead owner":       `window_no = 9223372036854775807, window_lo = 1, window_hi = 5, owner = gen_random_uuid(), lease_until = '-infinity'`,
		"solo and below zero":          `solo = true, low_seq = -5, changes = -9223372036854775808`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, withKafka(false))
			capture := w.capture(kafkaDestination)
			p := w.start()
			ids := w.insert(kafkaDestination, 40, 20)
			w.published(30*time.Second, 40)
			w.exec(`update messaging_outbox_lane set ` + edit)
			more := w.insert(kafkaDestination, 40, 20)
			w.published(3*lease+time.Second, 80)
			capture.WaitFor(t, 10*time.Second, append(ids, more...)...)
			once(t, capture, append(ids, more...))
			inOrder(t, capture, append(ids, more...))
			p.stillReady(kafkaDestination)
		})
	}
}

// Rows edited by hand are parked, healed or published like others, and the rows beside them do not wait.
func TestHandEdits_RowsHoldNobodyUp(t *testing.T) {
	t.Parallel()
	w := newWorld(t, withKafka(false), withRabbit(false))
	w.set("messaging", m{})
	capture := w.capture(kafkaDestination)
	edits := []string{
		`attempts = -2147483648`, `attempts = 2147483647`, `version = 2147483647`, `version = -2147483648`, `crash_attempts = 2147483647`, `crash_attempts = -1`,
		`status = 'AMBIGUOUS', next_attempt_at = now(), ambiguous_attempts = 2147483647, first_ambiguous_at = now()`,
		`status = 'AMBIGUOUS', next_attempt_at = now(), ambiguous_attempts = -2147483648`,
		`status = 'AMBIGUOUS', next_attempt_at = null`,
		`status = 'RETRYABLE_FAILURE', next_attempt_at = '0001-01-01 BC', attempts = -1`,
		`status = 'HELD'`,
		`status = 'SCHEDULED', next_attempt_at = now() - interval '1 year'`,
		`published_at = now() + interval '100 years', published_by = gen_random_uuid()`,
		`first_ambiguous_at = '294276-12-31', skipped_at = '4713-01-01 BC'`,
	}
	var ids []string
	for i, edit := range edits {
		for _, d := range both {
			id := w.add(d, message{orderingKey: fmt.Sprint("odd", i)})
			w.exec(`update messaging_outbox set `+edit+` where message_id = $1`, id)
			if d == kafkaDestination {
				ids = append(ids, id)
			}
		}
	}
	p := w.start()
	for _, d := range both {
		w.othersFlow(d)
	}
	brokertest.Eventually(t, 30*time.Second, "every row to be published or parked", func() bool {
		return w.number(`select count(*) from messaging_outbox where status not in ('PUBLISHED', 'PARKED')`) == 0
	})
	capture.WaitFor(t, 10*time.Second, ids...)
	if n := w.number(`select count(*) from messaging_outbox where status = 'PARKED'`); n > 0 {
		t.Errorf("%d rows are parked though the broker took them all", n)
	}

	// What was published and is set back goes out again, under its own id.
	w.exec(`update messaging_outbox set status = 'PENDING', published_at = null, ambiguous_attempts = 0 where message_id = $1`, ids[0])
	brokertest.Eventually(t, 20*time.Second, "the row that was set back to be sent again", func() bool { return capture.IDs()[ids[0]] == 2 })
	w.exec(`update messaging_outbox set status = 'HELD', published_at = null where message_id = $1`, ids[1])
	brokertest.Eventually(t, 20*time.Second, "the row that was set back behind nothing to be sent again", func() bool { return capture.IDs()[ids[1]] == 2 })
	for _, d := range both {
		p.stillReady(d)
	}
}

// A broker's refusal of a row whose counters stand at their ends is written as well as any.
func TestHandEdits_OddCountersTakeARefusal(t *testing.T) {
	t.Parallel()
	w := newWorld(t, withKafka(true))
	w.set("relay", m{"attempts": 2, "backoff": m{"initial": "50ms", "max": "100ms"}})
	var ids []string
	for i, edit := range []string{
		`attempts = 2147483647`, `attempts = -1`, `version = 2147483647`,
		`status = 'AMBIGUOUS', next_attempt_at = now(), ambiguous_attempts = 2147483647`,
		`status = 'AMBIGUOUS', next_attempt_at = now(), ambiguous_attempts = -2147483648`,
	} {
		id := w.add(kafkaDestination, message{orderingKey: fmt.Sprint("odd", i)})
		w.exec(`update messaging_outbox set `+edit+` where message_id = $1`, id)
		ids = append(ids, id)
	}
	w.kafkaProxy.DropReplies()
	p := w.start()
	brokertest.Eventually(t, 40*time.Second, "the doubt to be written", func() bool {
		return w.number(`select count(*) from messaging_outbox where last_outcome = 'AMBIGUOUS'`) > 0 ||
			w.number(`select count(*) from messaging_outbox_lane where window_lo is not null or window_ids is not null`) > 0
	})
	w.kafkaProxy.Pass()
	w.kafkaProxy.Cut()
	brokertest.Eventually(t, 60*time.Second, "every row to be published or parked", func() bool {
		return w.number(`select count(*) from messaging_outbox where status not in ('PUBLISHED', 'PARKED')`) == 0
	})
	w.othersFlow(kafkaDestination)
	if n := w.number(`select count(*) from messaging_outbox where attempts < 0 and message_id = any($1::uuid[])`, ids); n > 0 {
		t.Errorf("%d rows still count below zero", n)
	}
	if !p.alive() {
		t.Error("the relay ended")
	}
}
