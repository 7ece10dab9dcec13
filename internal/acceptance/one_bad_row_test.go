package acceptance

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/backend-skeleton/relay/internal/brokertest"
)

// badRow is a row that can never be sent.
type badRow struct {
	code     string
	attempts int
	// add inserts it under a key of its own.
	add func(w *world, destination, key string) (id string)
}

// big rows are over a limit, each over another one.
func big(bytes int) func(w *world, destination, key string) string {
	return func(w *world, destination, key string) string {
		return w.query(`select messaging_outbox_add($1, 'order.created', 'shop', convert_to('"' || repeat('x', $2) || '"', 'utf8'), ordering_key => $3,
		  partition_key => 'mail')::text`, destination, bytes, key)[0]
	}
}

// badRows are the kinds that a row can be refused for by itself, on every broker.
func badRows() map[string]badRow {
	return map[string]badRow{
		"over the limit of the file": {"TOO_LARGE", 1, big(2_000_000)},
		"a header that is no text": {"HEADER_REJECTED", 1, func(w *world, d, key string) string {
			return w.smuggle(d, message{orderingKey: key, partitionKey: "mail", headers: `{"n":1}`})
		}},
		"a type that the catalogue has not": {"TYPE_NOT_IN_CATALOGUE", 1, func(w *world, d, key string) string {
			return w.query(`select messaging_outbox_add($1, 'order.unheard-of', 'shop', '{}', ordering_key => $2, partition_key => 'mail')::text`, d, key)[0]
		}},
	}
}

// One bad row among 99 good ones is parked alone, on every broker and whatever is wrong with it: the good ones go out once,
// in one attempt and in order, and the destination stays ready.
func TestOneBadRowIsParkedAlone(t *testing.T) {
	t.Parallel()
	t.Run("kafka", func(t *testing.T) {
		t.Parallel()
		kinds := badRows()
		kinds["over the limit of the topic"] = badRow{"TOO_LARGE", 1, big(900_000)}
		w := newWorld(t, withKafka(false, brokertest.Partitions(3), brokertest.TopicConfig("max.message.bytes", "500000")))
		w.destinationFile(kafkaDestination)["outbox"] = m{"keyless": "refuse"}
		kinds["without the key that its destination asks for"] = badRow{"KEYLESS_ON_KEY", 1, func(w *world, d, _ string) string {
			return w.add(d, message{})
		}}
		w.oneBadRow(kafkaDestination, w.capture(kafkaDestination), kinds)
	})
	t.Run("rabbitmq", func(t *testing.T) {
		t.Parallel()
		kinds := badRows()
		kinds["a routing key that is too long"] = badRow{"ROUTING_KEY_TOO_LONG", 1, func(w *world, d, key string) string {
			return w.add(d, message{orderingKey: key, partitionKey: strings.Repeat("é", 128)})
		}}
		kinds["a routing key that leads nowhere"] = badRow{"UNROUTABLE", maxAttempts, func(w *world, d, key string) string {
			return w.add(d, message{orderingKey: key, partitionKey: "unbound"})
		}}
		w := newWorld(t, withRabbit(false))
		w.keyedRabbit("rabbit.keyed")
		w.oneBadRow("rabbit.keyed", w.capture(rabbitDestination), kinds)
	})
}

// oneBadRow sends 99 good rows with a bad one among them, for each kind, through one relay.
func (w *world) oneBadRow(destination string, capture *brokertest.Capture, kinds map[string]badRow) {
	w.t.Helper()
	w.unhurried()
	w.set("relay", m{"backoff": m{"initial": "100ms", "max": "200ms"}})
	w.messaging()["catalogue"] = m{"order.created": m{"kind": "DOMAIN_EVENT", "versions": []int{1}}}
	p := w.start()
	var good []string
	bad := 0
	for name, kind := range kinds {
		add := func(n int) {
			good = append(good, w.query(`select messaging_outbox_add($1, 'order.created', 'shop', '{}', ordering_key => 'k' || i % 10, partition_key => 'mail')::text
			  from generate_series(1, $2) i`, destination, n)...)
		}
		add(50)
		id := kind.add(w, destination, name)
		add(49)
		bad++
		w.until(60*time.Second, fmt.Sprintf("PARKED %d, PUBLISHED %d", bad, len(good)))
		if code, attempts := w.of(id, "last_failure_code"), w.of(id, "attempts"); code != kind.code || attempts != fmt.Sprint(kind.attempts) {
			w.t.Errorf("%s: parked by %s after %s attempts, want %s after %d", name, code, attempts, kind.code, kind.attempts)
		}
	}
	capture.WaitFor(w.t, 10*time.Second, good...)
	once(w.t, capture, good)
	inOrder(w.t, capture, good)
	if n := w.number(`select count(*) from messaging_outbox where status = 'PUBLISHED' and (attempts <> 1 or ambiguous_attempts <> 0)`); n != 0 {
		w.t.Errorf("%d good rows paid for the bad ones", n)
	}
	p.stillReady(destination)
}
