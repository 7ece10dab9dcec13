package acceptance

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/backend-skeleton/relay/internal/brokertest"
)

// Rows that only together are more than a topic takes go out in smaller pieces, in order, and none of them is blamed.
func TestB21_ABatchOverTheLimitIsSplit(t *testing.T) {
	t.Parallel()
	w := newWorld(t, withKafka(false, brokertest.Partitions(1), brokertest.TopicConfig("max.message.bytes", "1000000")))
	w.patient()
	capture := w.capture(kafkaDestination)
	ids := w.enqueue(`select messaging_outbox_add($1, 'order.created', 'shop', convert_to('"' || repeat('x', 200000) || '"', 'utf8'),
	  ordering_key => 'k')::text from generate_series(1, 20)`, kafkaDestination)
	p := w.start()
	w.published(40*time.Second, 20)
	capture.WaitFor(t, 10*time.Second, ids...)
	once(t, capture, ids)
	inOrder(t, capture, ids)
	if n := w.number(`select max(attempts) from messaging_outbox`); n != 1 {
		t.Errorf("up to %d attempts, want 1", n)
	}
	p.stillReady(kafkaDestination)
}

// A record that alone is too large is parked with its size and the limit, and everything around it goes out.
func TestB22_OneGiantRowIsParkedAlone(t *testing.T) {
	t.Parallel()
	const limit = 1_000_000
	w := newWorld(t, withKafka(false, brokertest.TopicConfig("max.message.bytes", fmt.Sprint(limit))))
	w.patient()
	w.destinationFile(kafkaDestination)["payload"] = m{"max-bytes": "8MiB", "reason": "the broker's limit is what the test is about"}
	capture := w.capture(kafkaDestination)
	ids := w.insert(kafkaDestination, 50, 10)
	giant := w.enqueue(`select messaging_outbox_add($1, 'order.created', 'shop', convert_to('"' || repeat('x', 5000000) || '"', 'utf8'))::text`, kafkaDestination)[0]
	ids = append(ids, w.insert(kafkaDestination, 50, 10)...)
	p := w.start()
	w.until(40*time.Second, "PARKED 1, PUBLISHED 100")
	w.parked(giant, "TOO_LARGE", 1)
	detail := w.of(giant, "last_failure_detail")
	size := 0
	for _, word := range strings.FieldsFunc(detail, func(r rune) bool { return r < '0' || r > '9' }) {
		var n int
		if _, err := fmt.Sscan(word, &n); err == nil && n >= 5_000_002 && n < 5_010_000 {
			size = n
		}
	}
	if size == 0 || !strings.Contains(detail, fmt.Sprint(limit)) {
		t.Errorf("the reason tells neither size nor limit: %s", detail)
	}
	capture.WaitFor(t, 10*time.Second, ids...)
	once(t, capture, ids)
	inOrder(t, capture, ids)
	p.stillReady(kafkaDestination)
}

// A topic that does not exist stops its own rows and nobody else's: they wait without losing attempts or growing
// memory, readiness says why, and they go out when the topic is made.
func TestB23_AMissingTopicHoldsItsOwnRows(t *testing.T) {
	t.Parallel()
	const nope = "kafka.nope"
	w := newWorld(t, withKafka(false))
	bootstrap, topic := brokertest.Require(t, "KAFKA_BOOTSTRAP"), brokertest.Name(t, "relay.")
	w.kafkaTo(nope, topic)
	w.patient()
	w.set("relay", m{"breaker": m{"open-max": "2s"}})
	rows := count(1000, 300)
	waiting := w.insert(nope, rows, 20)
	good := w.insert(kafkaDestination, 100, 10)
	p := w.startProgram(plainRelay(t), w.write())
	brokertest.Eventually(t, 5*time.Second, "the good topic's rows to be sent", func() bool { return w.sent(good) == 100 })
	p.notReady(nope, "UNKNOWN_TOPIC", 10*time.Second)
	p.stillReady(kafkaDestination)
	if n := p.metric("relay_breaker_state", `destination="`+nope+`"`, `state="CLOSED"`); n != 0 {
		t.Error("the breaker of the missing topic is closed")
	}
	memory := p.metric("process_resident_memory_bytes")
	for range count(24, 3) {
		<-time.After(time.Duration(count(5, 1)) * time.Second) // in which it tries again and again
		w.othersFlow(kafkaDestination)
		if now := p.metric("process_resident_memory_bytes"); now > memory+32<<20 {
			t.Fatalf("memory grows: %.0f MiB, it was %.0f MiB", now/(1<<20), memory/(1<<20))
		}
	}
	if n := w.number(`select count(*) from messaging_outbox where destination = $1 and status = 'PENDING' and attempts = 0 and ambiguous_attempts = 0`, nope); n != rows {
		t.Errorf("%d rows wait as they were, want %d", n, rows)
	}
	createTopic(t, bootstrap, topic)
	capture := brokertest.CaptureKafka(t, bootstrap, topic)
	brokertest.Eventually(t, 40*time.Second, "the waiting rows to be sent", func() bool { return w.sent(waiting) == rows })
	capture.WaitFor(t, 10*time.Second, waiting...)
	once(t, capture, waiting)
	inOrder(t, capture, waiting)
	if n := w.number(`select max(attempts) from messaging_outbox where destination = $1`, nope); n != 1 {
		t.Errorf("up to %d attempts, want 1", n)
	}
}

// createTopic makes a topic of this name, until the test ends.
func createTopic(t *testing.T, bootstrap, topic string) {
	t.Helper()
	admin := brokertest.Admin(t, bootstrap)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	if _, err := admin.CreateTopic(ctx, 3, -1, nil, topic); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		_, _ = admin.DeleteTopics(ctx, topic) // what is left goes with the server
	})
}

// Outcomes are kept row by row: what was stored of a batch that was refused in part is never sent again.
func TestB25_SomeOfABatch(t *testing.T) {
	t.Parallel()
	w := newWorld(t, withKafka(true, brokertest.Partitions(1), brokertest.TopicConfig("max.message.bytes", "2000")))
	capture := w.capture(kafkaDestination)
	ids := w.enqueue(`select messaging_outbox_add($1, 'order.created', 'shop',
	  convert_to('"' || repeat('x', case i when 3 then 4000 else 10 end) || '"', 'utf8'))::text from generate_series(1, 5) i`, kafkaDestination)
	others := append(append([]string{}, ids[:2]...), ids[3:]...)
	p := w.start()
	w.until(30*time.Second, "PARKED 1, PUBLISHED 4")
	w.parked(ids[2], "TOO_LARGE", 1)
	capture.WaitFor(t, 10*time.Second, others...)
	w.insert(kafkaDestination, 1, 0) // the next pass
	w.until(20*time.Second, "PARKED 1, PUBLISHED 5")
	capture.WaitIDs(t, 5, 10*time.Second)
	capture.Quiet(t, time.Second)
	for _, id := range others {
		if n := capture.IDs()[id]; n != 1 {
			t.Errorf("a row was captured %d times, want once", n)
		}
	}
	if n := capture.IDs()[ids[2]]; n != 0 {
		t.Error("the row over the limit was captured")
	}
	if n := w.number(`select count(*) from messaging_outbox where status = 'PUBLISHED' and (attempts <> 1 or ambiguous_attempts <> 0)`); n != 0 {
		t.Errorf("%d rows paid for another row's refusal", n)
	}
	p.stillReady(kafkaDestination)
}
