package acceptance

import (
	"context"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/backend-skeleton/relay/internal/brokertest"
)

// A publish whose confirm cannot come any more ends in doubt within its deadline, and the row goes out again.
func TestB13_AConfirmThatNeverCame(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]brokertest.Fault{
		"the connection is cut": brokertest.CutAfter, "the confirm is lost": brokertest.SwallowAnswer,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, withRabbit(true))
			// When a lost confirm is given up for good, so that the row may go out again.
			w.destinationFile(rabbitDestination)["producer"].(m)["abandon-after"] = "1500ms"
			capture := w.capture(rabbitDestination)
			ids := w.insert(rabbitDestination, 1, 0)
			w.start()
			w.published(20*time.Second, 1)
			leases := w.watchLeases()
			for range count(5, 3) {
				trap := w.rabbitProxy.Trap(fault, 1, nil)
				four := w.insert(rabbitDestination, 4, 0)
				ids = append(ids, four...)
				trap.Wait(t, 1, 20*time.Second)
				brokertest.Eventually(t, publishTimeout+time.Second, "the publish to end", func() bool {
					return w.number(`select count(*) from messaging_outbox where message_id = any($1::uuid[]) and ambiguous_attempts > 0`, four) > 0
				})
				w.published(20*time.Second, len(ids))
			}
			if n := leases(); n > 0 {
				t.Errorf("rows were on the wire beyond their lease, in %d looks", n)
			}
			capture.WaitFor(t, 10*time.Second, ids...)
			doubted := w.query(`select message_id::text from messaging_outbox where ambiguous_attempts > 0`)
			for _, id := range capture.Duplicates() {
				if !slices.Contains(doubted, id) {
					t.Error("a row was sent twice that was never in doubt")
				}
			}
		})
	}
}

// watchLeases looks at the lanes until it is asked in how many looks one had rows on the wire beyond its lease.
func (w *world) watchLeases() (overdue func() int) {
	ctx, stop := context.WithCancel(context.Background())
	found := make(chan int, 1)
	go func() {
		n := 0
		for ctx.Err() == nil {
			var beyond bool
			err := w.db.QueryRow(ctx, `select exists (select from messaging_outbox_lane where owner is not null and lease_until < clock_timestamp()
			  and (window_lo is not null or cardinality(window_ids) > 0))`).Scan(&beyond)
			if err != nil {
				break // told to stop
			}
			if beyond {
				n++
			}
			select {
			case <-ctx.Done():
			case <-time.After(50 * time.Millisecond):
			}
		}
		found <- n
	}()
	overdue = sync.OnceValue(func() int {
		stop()
		return <-found
	})
	w.t.Cleanup(func() { overdue() })
	return overdue
}

// A message that no queue took is never PUBLISHED, and no other message is blamed for it.
func TestB14_UnroutableIsNotSent(t *testing.T) {
	t.Parallel()
	w := newWorld(t, withKafka(false), withRabbit(false))
	w.rabbitByKey("rabbit.keyed")
	capture := w.capture(rabbitDestination)
	rows := count(1000, 200)
	ids := w.enqueue(`select messaging_outbox_add('rabbit.keyed', 'order.created', 'shop', '{}',
	  partition_key => case when i % 2 = 0 then 'mail' else 'unbound-key' end)::text from generate_series(1, $1) i`, rows)
	var bound, unbound []string
	for i, id := range ids {
		if i%2 == 1 {
			bound = append(bound, id)
		} else {
			unbound = append(unbound, id)
		}
	}
	p := w.start()
	w.until(40*time.Second, fmt.Sprintf("PARKED %d, PUBLISHED %d", rows/2, rows/2))
	capture.WaitFor(t, 10*time.Second, bound...)
	once(t, capture, bound)
	if n := w.sent(bound); n != rows/2 {
		t.Errorf("%d rows with the bound key are PUBLISHED, want %d", n, rows/2)
	}
	if n := w.number(`select count(*) from messaging_outbox where message_id = any($1::uuid[]) and status = 'PARKED' and attempts = $2
	  and last_failure_code = 'UNROUTABLE' and last_routing = 'UNROUTABLE' and last_failure_detail not like '%unbound-key%'
	  and partition_key = 'unbound-key'`, unbound, maxAttempts); n != rows/2 {
		t.Errorf("%d rows are parked as unroutable after %d attempts, want %d", n, maxAttempts, rows/2)
	}
	if n := w.number(`select max(attempts) from messaging_outbox where message_id = any($1::uuid[])`, bound); n != 1 {
		t.Errorf("up to %d attempts of rows with the bound key, want 1", n)
	}
	p.stillReady("rabbit.keyed") // a key that a row brings along says nothing about the destination
	w.othersFlow(kafkaDestination)
}

// A negative confirm is a refusal for now: the row waits and goes out when there is room.
func TestB15_ANackIsTriedAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t, withKafka(false), withRabbit(false))
	w.set("relay", m{"breaker": m{"failures": 1000}, "attempts": 20})
	w.vhost.Queue(t, "full.q", m{"x-queue-type": "classic", "x-max-length": 1, "x-overflow": "reject-publish"})
	w.vhost.Bind(t, "mail", "full.q", "full")
	w.destinationFile(rabbitDestination)["physical"] = m{"exchange": "mail", "routing-key": "full", "queue": "full.q"}
	ids := w.insert(rabbitDestination, 3, 0)
	p := w.start()
	w.until(20*time.Second, "PUBLISHED 1, RETRYABLE_FAILURE 2")
	refused := w.query(`select message_id::text from messaging_outbox where status = 'RETRYABLE_FAILURE' and attempts > 0
	  and last_failure_code = 'NACKED' and last_transmission = 'TRANSMITTED'`)
	if len(refused) != 2 {
		t.Errorf("%d rows wait as refused with a raised attempt, want 2", len(refused))
	}
	w.othersFlow(kafkaDestination)
	if n := w.sent(ids); n != 1 {
		t.Errorf("%d rows are sent while the queue is full, want 1", n)
	}
	p.stillReady(rabbitDestination)
	capture := brokertest.CaptureRabbit(t, w.vhost.URL(), "full.q")
	w.published(30*time.Second, 53)
	capture.WaitFor(t, 10*time.Second, ids...)
	once(t, capture, ids)
	bodies := map[string]int{}
	for _, msg := range capture.All() {
		bodies[string(msg.Body)]++
	}
	if len(bodies) != 3 {
		t.Errorf("%d different bodies arrived, want 3", len(bodies))
	}
}

// Confirms are matched within the channel they belong to, so that a restart of the broker costs later rows nothing.
func TestB17_ConfirmsAfterARestartOfTheBroker(t *testing.T) {
	t.Parallel()
	server := brokertest.StartRabbitMQ(t, brokertest.RabbitOptions{})
	w := newWorld(t)
	w.vhost = brokertest.NewVhostOn(t, server.Env("RABBITMQ_URL_1"), server.Env("RABBITMQ_API_1"))
	w.useRabbit(w.vhost.Addr())
	w.set("relay", m{"breaker": m{"open-max": "2s"}})
	before := w.insert(rabbitDestination, 10, 0)
	p := w.start()
	w.published(20*time.Second, 10)
	capture := w.capture(rabbitDestination)
	capture.WaitFor(t, 10*time.Second, before...)
	server.Stop()
	after := w.insert(rabbitDestination, 5, 0)
	brokertest.Eventually(t, 30*time.Second, "readiness to say that the broker is away", func() bool {
		ready, reason := p.readiness(rabbitDestination)
		return !ready && reason != ""
	})
	server.StartNode(1)
	after = append(after, w.insert(rabbitDestination, 10, 0)...)
	w.published(60*time.Second, 25)
	capture.WaitFor(t, 20*time.Second, after...)
	counts := capture.IDs()
	for _, id := range after {
		if counts[id] != 1 {
			t.Errorf("a row behind the restart was captured %d times, want once", counts[id])
		}
	}
	if n := w.number(`select count(*) from messaging_outbox where message_id = any($1::uuid[]) and attempts = 1 and ambiguous_attempts = 0`, after); n != 15 {
		t.Errorf("%d rows behind the restart took one attempt, want 15", n)
	}
}

// Headers are text: any other JSON value is refused by name where it is written, and should one get past that, its row
// alone is parked; no broker's connection notices.
func TestB18_HeadersThatTheWireCannotCarry(t *testing.T) {
	t.Parallel()
	w := newWorld(t, withKafka(true), withRabbit(true))
	captures := map[string]*brokertest.Capture{}
	for _, d := range both {
		captures[d] = w.capture(d)
		w.insert(d, 10, 0)
	}
	p := w.start()
	w.published(20*time.Second, 20)
	connections := steady(t, w.kafkaProxy, w.rabbitProxy)
	closed := w.watchCloses()
	values := map[string]string{
		"n": `1`, "neg": `-1`, "big": `9223372036854775807`, "f": `1.5`, "b": `true`, "nil": `null`, "arr": `[1,"a"]`, "obj": `{"k":1}`,
	}
	text := map[string]string{"e": ""}
	var bad []string
	for name, value := range values {
		constraint, why := w.refused(kafkaDestination, message{headers: fmt.Sprintf(`{"ok":"1",%q:%s}`, name, value)})
		if constraint != "messaging_outbox_header_value_text" || !strings.Contains(why, `"`+name+`"`) {
			t.Errorf("header %s: refused by %s: %s", name, constraint, why)
		}
		text[name] = value
		for _, d := range both {
			bad = append(bad, w.smuggle(d, message{headers: fmt.Sprintf(`{"ok":"1",%q:%s}`, name, value)}))
		}
	}
	good := map[string]string{}
	for _, d := range both {
		good[d] = w.enqueue(`select messaging_outbox_add($1, 'order.created', 'shop', '{}', headers => $2::jsonb)::text`, d, text)[0]
	}
	for _, id := range bad {
		w.parked(id, "HEADER_REJECTED", 1)
	}
	for _, d := range both {
		w.othersFlow(d)
		for _, msg := range captures[d].WaitFor(t, 10*time.Second, good[d]) {
			if msg.ID != good[d] {
				continue
			}
			got := map[string]string{}
			for name := range text {
				if v, ok := msg.Headers[name]; ok {
					got[name] = v[0]
				}
			}
			if !maps.Equal(got, text) {
				t.Errorf("%s: the headers arrive as %v, want %v", d, got, text)
			}
		}
		captures[d].WaitIDs(t, 10+1+50, 10*time.Second)
		if n := len(captures[d].IDs()); n != 10+1+50 {
			t.Errorf("%s: %d messages arrived, want 61", d, n)
		}
		p.stillReady(d)
	}
	connections()
	if n := closed.Load(); n > 0 {
		t.Errorf("%d channels or connections were closed", n)
	}
}

// The limit of a routing key is counted in bytes before anything is written: the rows over it are parked at once, and
// the channel lives on.
func TestB19_ARoutingKeyOverItsLimit(t *testing.T) {
	t.Parallel()
	w := newWorld(t, withKafka(false), withRabbit(true))
	w.rabbitByKey("rabbit.keyed")
	fits := strings.Repeat("a", 255)
	w.vhost.Bind(t, "mail", w.queue, fits)
	capture := w.capture(rabbitDestination)
	first := w.add("rabbit.keyed", message{partitionKey: "mail"})
	p := w.start()
	w.published(20*time.Second, 1)
	connections, closed := steady(t, w.rabbitProxy), w.watchCloses()
	good := w.add("rabbit.keyed", message{partitionKey: fits})
	for _, key := range []string{strings.Repeat("a", 256), strings.Repeat("é", 128)} {
		id := w.add("rabbit.keyed", message{partitionKey: key})
		w.parked(id, "ROUTING_KEY_TOO_LONG", 1)
		if detail := w.of(id, "last_failure_detail"); !strings.Contains(detail, "256") || strings.Contains(detail, key[:8]) {
			t.Errorf("the reason does not tell the number of bytes alone: %s", detail)
		}
		if got := w.of(id, "last_transmission"); got != "NOT_TRANSMITTED" {
			t.Errorf("the row over the limit is %s", got)
		}
	}
	same := w.add("rabbit.keyed", message{partitionKey: "mail"})
	capture.WaitFor(t, 20*time.Second, first, good, same)
	once(t, capture, []string{first, good, same})
	w.othersFlow(kafkaDestination)
	w.othersFlow(rabbitDestination)
	p.stillReady("rabbit.keyed")
	connections()
	if n := closed.Load(); n > 0 {
		t.Errorf("%d channels or connections were closed", n)
	}
}

// watchCloses counts from now on what either side of the world's RabbitMQ closes: a channel or the connection.
func (w *world) watchCloses() *atomic.Int32 {
	var closed atomic.Int32
	w.rabbitProxy.Intercept(func(c brokertest.Chunk) brokertest.Verdict {
		if len(c.Bytes) >= 11 && c.Bytes[0] == 1 { // a method frame
			switch binary.BigEndian.Uint32(c.Bytes[7:]) {
			case 20<<16 | 40, 10<<16 | 50:
				closed.Add(1)
			}
		}
		return brokertest.Forward
	})
	w.t.Cleanup(func() { w.rabbitProxy.Intercept(nil) })
	return &closed
}
