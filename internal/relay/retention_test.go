package relay_test

import (
	"testing"
	"time"

	"github.com/backend-skeleton/relay/internal/brokertest"
	"github.com/backend-skeleton/relay/internal/outbox"
	"github.com/backend-skeleton/relay/internal/relay"
)

// A relay that has rows to send all the time still removes old ones: it yields, and does not stop.
func TestRetentionGoesOnWhileRowsFlow(t *testing.T) {
	t.Parallel()
	b := setup(t)
	if _, err := b.db.Exec(t.Context(), `insert into messaging_outbox (message_id, destination, message_type, producer, payload)
	    select ('01000000-0000-7000-8000-' || lpad(to_hex(i), 12, '0'))::uuid, 'orders', 'order.created', 'shop', '{}' from generate_series(1, 3000) i`); err != nil {
		t.Fatal(err)
	}
	if _, err := b.db.Exec(t.Context(), `update messaging_outbox set status = 'PUBLISHED', published_at = now() - interval '1 hour'`); err != nil {
		t.Fatal(err)
	}
	type left struct {
		table string
		rows  int64
	}
	told := make(chan left, 1000)
	b.start(func(c *relay.Config) {
		c.Retention = relay.Retention{Published: outbox.Retention{Keep: time.Minute, Archive: true, Batch: 100}, Archived: time.Hour, Share: 0.5}
		c.Hooks.Pruned = func(table string, rows int64) { told <- left{table, rows} }
	})
	deadline := time.After(30 * time.Second)
	for gone := int64(0); gone < 3000; {
		b.add(20, 3)
		select {
		case l := <-told:
			if l.table != "outbox" || l.rows > 100 {
				t.Fatalf("%d rows left the %s", l.rows, l.table)
			}
			gone += l.rows
		case <-time.After(10 * time.Millisecond): // more rows to send
		case <-deadline:
			t.Fatalf("%d of 3000 rows were removed while others were sent", gone)
		}
	}
	brokertest.Eventually(t, 15*time.Second, "all is sent and the old rows are in the archive", func() bool {
		c := b.counts()
		var archived int
		if err := b.db.QueryRow(t.Context(), `select count(*) from messaging_outbox_archive`).Scan(&archived); err != nil {
			t.Fatal(err)
		}
		return archived == 3000 && c["PUBLISHED"] > 0 && len(c) == 1
	})
}
