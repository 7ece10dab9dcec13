package relay_test

import (
	"testing"

	"github.com/backend-skeleton/relay/messaging"
)

// After an outage single rows find out how things stand. One of them is refused each time, as if the broker were still away,
// and stays the first of its lane: it keeps nobody else out, wherever it stands among the rows that can be taken.
func TestABadProbeRowKeepsNobodyOut(t *testing.T) {
	t.Parallel()
	const doubted = `update messaging_outbox set status = 'AMBIGUOUS', ambiguous_attempts = 1, next_attempt_at = now() where `
	for name, change := range map[string]string{
		"all were never offered":      `select $1::uuid`,
		"it alone is tried again":     doubted + `message_id = $1`,
		"all others are tried again":  doubted + `message_id <> $1`,
		"all of them are tried again": doubted + `$1::uuid is not null`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.broker.down = true
			b.broker.answer = func(key string, _ messaging.MessageID, _ int) (messaging.PublishResult, bool) {
				if key == "k0" {
					return rejected(messaging.CategoryTransientInfrastructure, messaging.CodeBrokerUnreachable, messaging.NotTransmitted), false
				}
				return confirmed(), true
			}
			poison := b.add(1, 1)
			// The same lane has more rows behind it, and so have others.
			good := b.number(`with added as (
			  select messaging_outbox_add('orders', 'order.created', 'shop', '{}', 'g' || i) from generate_series(1, 100) i)
			  select count(*) from added`)
			if _, err := b.db.Exec(t.Context(), change, poison[0]); err != nil {
				t.Fatal(err)
			}
			r, _ := b.start()
			wait(t, "the breaker to open", func() bool {
				h := r.Health()
				return len(h.Destinations) == 1 && !h.Destinations[0].Ready
			})
			b.broker.set(func() { b.broker.down = false })
			wait(t, "the others to be sent", func() bool {
				return b.number(`select count(*) from messaging_outbox where status = 'PUBLISHED'`) == good
			})
			if n := b.number(`select count(*) from messaging_outbox where message_id = $1 and status <> 'PUBLISHED' and attempts = 0`, poison[0]); n != 1 {
				t.Error("the row that is refused has changed")
			}
		})
	}
}
