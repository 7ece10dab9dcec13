package torture

import (
	"context"
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/backend-skeleton/relay/internal/brokertest"
	"github.com/backend-skeleton/relay/messaging/transport"
)

// Options of a run.
type Options struct {
	Seed   uint64
	Length time.Duration // of the nemesis's schedule
	Plan   Plan          // instead of the one that Seed draws
	Relays int           // default 4
	Rate   int           // rows a second; default 200
	// Program is the relay's binary.
	Program string
	// OwnPostgres starts a PostgreSQL that the nemesis may kill.
	OwnPostgres bool
	// Settle is how long nothing more may be published, when all is well again, before what is left is given up; default 1
	// minute.
	Settle time.Duration
	// Logs is where the relays' logs go; default a folder that ends with the test.
	Logs string
}

func (o *Options) setDefaults() {
	if o.Relays == 0 {
		o.Relays = 4
	}
	if o.Rate == 0 {
		o.Rate = 200
	}
	if o.Settle == 0 {
		o.Settle = time.Minute
	}
	if o.Plan == nil {
		o.Plan = NewPlan(o.Seed, o.Length, o.Relays, lease, o.OwnPostgres)
	}
}

// Run lets a fleet work while the nemesis breaks things, waits until all is delivered, and judges. It needs
// KAFKA_BOOTSTRAP, RABBITMQ_URL_1, RABBITMQ_API_1 and, without a PostgreSQL of its own, PG_URL_17.
func Run(t testing.TB, o Options) *Report {
	t.Helper()
	o.setDefaults()
	t.Logf("seed %d, %v:\n%s", o.Seed, o.Plan.Length(), o.Plan)
	w := newWorld(t, o)
	started := time.Now()
	for _, m := range w.members {
		m.start()
		defer m.end(syscall.SIGKILL)
	}
	writing, stop := context.WithCancel(t.Context())
	defer stop()
	ws := &writers{db: w.db.Pool, destinations: []string{kafkaOrders, rabbitMail, rabbitTasks}, seed: o.Seed, rate: o.Rate}
	written := make(chan struct{})
	go func() {
		defer close(written)
		ws.run(writing)
	}()
	faults := w.torment(t.Context(), o.Plan)
	stop()
	<-written
	settling := time.Now()
	w.settle(o.Settle)
	r := &Report{Seed: o.Seed, Length: time.Since(started).Round(time.Second), Settled: time.Since(settling).Round(time.Millisecond), Faults: faults}
	h := &History{Written: ws.written, Attempts: maxAttempts}
	if err := h.read(context.WithoutCancel(t.Context()), w.db.Pool); err != nil {
		t.Fatal(err)
	}
	h.Deliveries = w.deliveries()
	r.judge(h)
	for _, m := range w.members {
		r.Starts += m.starts
		r.Exits += m.exits
		r.Panics = append(r.Panics, m.panics()...)
	}
	return r
}

// settle waits until everything is published and delivered, or until nothing was for the length of limit: what is
// missing then is for the checker, and not for want of a faster machine.
func (w *world) settle(limit time.Duration) {
	progress, least := time.Now(), -1
	for open := 1; open > 0 && time.Since(progress) < limit; {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(w.t.Context()), 10*time.Second)
		if err := w.db.QueryRow(ctx, `select count(*) from messaging_outbox where status not in ('PUBLISHED', 'PARKED')`).Scan(&open); err != nil {
			open = max(least, 1)
		}
		cancel()
		if least < 0 || open < least {
			progress, least = time.Now(), open
		}
		<-time.After(100 * time.Millisecond) // between two looks
	}
	// What is on its way still arrives: nothing has come for a while.
	for quiet, n := time.Now(), -1; time.Since(quiet) < 1500*time.Millisecond; <-time.After(50 * time.Millisecond) {
		now := 0
		for _, c := range w.captures {
			now += c.Len()
		}
		if now != n {
			quiet, n = time.Now(), now
		}
	}
}

func (w *world) deliveries() (out []Delivery) {
	for destination, c := range w.captures {
		for _, m := range c.All() {
			out = append(out, delivery(destination, &m))
		}
	}
	return out
}

func delivery(destination string, m *brokertest.Message) Delivery {
	key := m.Header(transport.HeaderOrderingKey)
	d := Delivery{At: m.Arrived, ID: m.ID, Destination: destination, Key: key}
	d.Digest = Digest(m.Header(transport.HeaderType), key, m.Header(userHeader), m.Body)
	if destination == kafkaOrders && key != "" && m.Key != key { // the record's own key decides its partition
		d.Key = fmt.Sprintf("%s under %s", key, m.Key)
	}
	return d
}
