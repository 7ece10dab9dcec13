package acceptance

import (
	"testing"
	"time"
)

// One bad row among 99 good ones is parked alone, on every broker: the good ones go out once, in one attempt.
func TestOneBadRowIsParkedAlone(t *testing.T) {
	t.Parallel()
	for destination, broker := range map[string]option{kafkaDestination: withKafka(false), rabbitDestination: withRabbit(false)} {
		t.Run(destination, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, broker)
			capture := w.capture(destination)
			good := w.insert(destination, 50, 10)
			bad := w.enqueue(`select messaging_outbox_add($1, 'order.created', 'shop', convert_to('"' || repeat('x', 2000000) || '"', 'utf8'), ordering_key => 'alone')::text`, destination)[0]
			good = append(good, w.insert(destination, 49, 10)...)
			p := w.start()
			w.until(40*time.Second, "PARKED 1, PUBLISHED 99")
			w.parked(bad, "TOO_LARGE", 1)
			capture.WaitFor(t, 10*time.Second, good...)
			once(t, capture, good)
			if destination == kafkaDestination { // the other keeps no order
				inOrder(t, capture, good)
			}
			if n := w.number(`select count(*) from messaging_outbox where status = 'PUBLISHED' and (attempts <> 1 or ambiguous_attempts <> 0)`); n != 0 {
				t.Errorf("%d good rows paid for the bad one", n)
			}
			p.stillReady(destination)
		})
	}
}
