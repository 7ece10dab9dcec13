package relay_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/backend-skeleton/relay/messaging"
)

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
