package acceptance

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/backend-skeleton/relay/internal/brokertest"
	"github.com/backend-skeleton/relay/internal/dbtest"
	"github.com/backend-skeleton/relay/internal/testenv"
)

// count is how many of something a case takes: its written number in the full tier, fewer in the short one.
func count(full, short int) int {
	if testenv.Full() {
		return full
	}
	return short
}

// othersFlow fails unless 50 ordinary rows of another destination are sent while the fault lasts.
func (w *world) othersFlow(destination string) {
	w.t.Helper()
	ids := w.insert(destination, 50, 0)
	brokertest.Eventually(w.t, 5*time.Second, "rows of "+destination+" to be sent all the same", func() bool {
		return w.sent(ids) == len(ids)
	})
}

// sent counts those of ids that are PUBLISHED.
func (w *world) sent(ids []string) int {
	w.t.Helper()
	return w.number(`select count(*) from messaging_outbox where message_id = any($1::uuid[]) and status = 'PUBLISHED'`, ids)
}

// of gives a column of one row as text, "" where it is null.
func (w *world) of(id, column string) string {
	w.t.Helper()
	return w.query(`select coalesce(`+column+`::text, '') from messaging_outbox where message_id = $1`, id)[0]
}

// parked waits until one row is PARKED and checks the cause and the number of attempts.
func (w *world) parked(id, code string, attempts int) {
	w.t.Helper()
	brokertest.Eventually(w.t, 30*time.Second, "the row to be parked by "+code, func() bool { return w.of(id, "status") == "PARKED" })
	if got := w.of(id, "last_failure_code"); got != code {
		w.t.Errorf("parked by %s, want %s", got, code)
	}
	if n := w.number(`select attempts from messaging_outbox where message_id = $1`, id); n > attempts {
		w.t.Errorf("%s: parked after %d attempts, want at most %d", code, n, attempts)
	}
}

// message is what a case says about one row; what is empty is absent.
type message struct {
	partitionKey, orderingKey, headers, payload string
}

const addMessage = `select messaging_outbox_add($1, 'order.created', 'shop', convert_to(coalesce(nullif($2, ''), '{}'), 'utf8'),
  partition_key => nullif($3, ''), ordering_key => nullif($4, ''), headers => coalesce(nullif($5, ''), '{}')::jsonb)::text`

func (w *world) add(destination string, r message) string {
	w.t.Helper()
	return w.enqueue(addMessage, destination, r.payload, r.partitionKey, r.orderingKey, r.headers)[0]
}

// refused gives the constraint by which the database refuses the row, and its message.
func (w *world) refused(destination string, r message) (constraint, text string) {
	w.t.Helper()
	_, err := w.writers.Exec(context.Background(), addMessage, destination, r.payload, r.partitionKey, r.orderingKey, r.headers)
	var refusal *pgconn.PgError
	if !errors.As(err, &refusal) {
		w.t.Fatalf("the row was not refused: %v", err)
	}
	return refusal.ConstraintName, refusal.Message
}

// smuggle adds a row past the guards of the table, as a restore or a replication may.
func (w *world) smuggle(destination string, r message) (id string) {
	w.t.Helper()
	ctx := context.Background()
	tx, err := w.db.Begin(ctx)
	if err != nil {
		w.t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(ctx) }() // after the commit it does nothing
	usual := r
	usual.headers = ""
	if err := tx.QueryRow(ctx, addMessage, kafkaDestination, usual.payload, usual.partitionKey, usual.orderingKey, usual.headers).Scan(&id); err != nil {
		w.t.Fatal(err)
	}
	if _, err := tx.Exec(ctx, `set local session_replication_role = replica`); err != nil {
		w.t.Fatal(err)
	}
	if _, err := tx.Exec(ctx, `update messaging_outbox set destination = $2, headers = coalesce(nullif($3, ''), '{}')::jsonb,
	  lane = messaging_outbox_lane_of($2, coalesce(ordering_key, message_id::text)) where message_id = $1`, id, destination, r.headers); err != nil {
		w.t.Fatal(err)
	}
	if err := tx.Commit(ctx); err != nil {
		w.t.Fatal(err)
	}
	return id
}

// rabbitByKey adds a destination on the world's RabbitMQ whose rows carry their routing key.
func (w *world) rabbitByKey(name string) {
	w.destination(name, m{
		"broker": "rabbit", "kind": "WORK_QUEUE", "physical": m{"exchange": "mail", "routing-key-from": "partition-key", "queue": w.queue},
		"producer": m{"confirmation": "BROKER_ACK", "timeout": publishTimeout.String()},
	})
}

// kafkaTo adds a destination on the world's Kafka.
func (w *world) kafkaTo(name, topic string) {
	w.destination(name, m{
		"broker": "kafka", "kind": "EVENT_STREAM", "physical": m{"topic": topic}, "guarantees": m{"ordering": "KEY"},
		"producer": m{"confirmation": "BROKER_ACK", "timeout": publishTimeout.String()}, "outbox": m{"keyless": "allow"},
	})
}

// inboxctl runs the operator's program on the world's database and reads its JSON.
func (w *world) inboxctl(into any, args ...string) {
	w.t.Helper()
	cmd := exec.Command(inboxctlProgram, append(args, "-o", "json")...)
	cmd.Env = append(append(os.Environ(), w.env...), "RELAY_DATABASE_URL="+w.db.Account(w.t, dbtest.Operator))
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		w.t.Fatalf("inboxctl %s: %v\n%s", strings.Join(args, " "), err, stderr.String())
	}
	decode(w.t, stdout.String(), into)
}

func decode(t *testing.T, body string, into any) {
	t.Helper()
	if err := json.Unmarshal([]byte(body), into); err != nil {
		t.Fatalf("not the JSON that was expected: %v\n%s", err, body)
	}
}

// stillReady fails where the relay does not call a destination ready.
func (p *process) stillReady(destination string) {
	p.t.Helper()
	if ready, reason := p.readiness(destination); !ready {
		p.t.Errorf("%s is not ready: %s", destination, reason)
	}
}

// notReady waits until the relay says why a destination is not ready.
func (p *process) notReady(destination, reason string, limit time.Duration) {
	p.t.Helper()
	brokertest.Eventually(p.t, limit, "readiness of "+destination+" to say "+reason, func() bool {
		ready, got := p.readiness(destination)
		return !ready && got == reason
	})
}

// steady remembers how many connections a proxy has seen and fails the test where there are more at the end of it.
func steady(t *testing.T, proxies ...*brokertest.Proxy) (check func()) {
	t.Helper()
	before := make([]int, len(proxies))
	for i, p := range proxies {
		before[i] = p.Dials()
	}
	return func() {
		t.Helper()
		for i, p := range proxies {
			if n := p.Dials(); n != before[i] {
				t.Errorf("%d connections were opened anew", n-before[i])
			}
		}
	}
}
