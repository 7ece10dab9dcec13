package torture

import (
	"context"
	"fmt"
	"slices"
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
	// Keys of each destination; default 40.
	Keys int
	// Patient relays open no breaker for rows that fail one after another.
	Patient bool
	// Backoff is the relays' first wait; default 200 ms.
	Backoff time.Duration
	// Hurry lets the operator make the rows due that wait behind the head of their key, and do nothing else.
	Hurry bool
	// Program is the relay's binary.
	Program string
	// OwnServers starts a PostgreSQL, a Kafka and a RabbitMQ that the nemesis may kill and pause.
	OwnServers bool
	// Settle is how long nothing more may be published, when all is well again, before what is left is given up; default 1
	// minute.
	Settle time.Duration
	// Until ends the schedule after the step that has shown this rule to be broken; none by default. It is for rules that
	// an unfinished history can break: not for what is lost, unfinished or invented.
	Until Rule
	// Logs is where the relays' logs go; default a folder that ends with the test.
	Logs string
}

func (o *Options) setDefaults() {
	for _, d := range []struct {
		set   *int
		value int
	}{{&o.Relays, 4}, {&o.Rate, 200}, {&o.Keys, 40}} {
		if *d.set == 0 {
			*d.set = d.value
		}
	}
	if o.Backoff == 0 {
		o.Backoff = 200 * time.Millisecond
	}
	if o.Settle == 0 {
		o.Settle = time.Minute
	}
	if o.Plan == nil {
		o.Plan = NewPlan(o.Seed, o.Length, o.Relays, lease, o.OwnServers)
	}
}

// Run lets a fleet work while the nemesis breaks things, waits until all is delivered, and judges. It needs
// KAFKA_BOOTSTRAP, RABBITMQ_URL_1, RABBITMQ_API_1 and PG_URL_17, or what starts servers of its own.
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
	writers := &writers{db: w.db.Pool, destinations: []string{kafkaOrders, rabbitMail, rabbitTasks}, seed: o.Seed, rate: o.Rate, keys: o.Keys}
	stopWriting := background(t, writers.run)
	operator := newOperator(w.operatorPool(), o.Seed, o.Hurry)
	stopOperating := background(t, operator.run)
	history := func() *History {
		h := &History{
			Written: writers.snapshot(), Skips: map[string]bool{rabbitMail: true},
			Attempts: map[string]int32{kafkaOrders: maxAttempts, rabbitMail: maxAttempts, rabbitTasks: fewAttempts},
		}
		h.Deliveries = w.deliveries() // before what the table knows, which must explain them
		if err := h.read(context.WithoutCancel(t.Context()), w.db.Pool); err != nil {
			t.Fatal(err)
		}
		return h
	}
	enough := func() bool {
		return o.Until != "" && slices.ContainsFunc(Check(history()), func(v Violation) bool { return v.Rule == o.Until })
	}
	faults := w.torment(t.Context(), o.Plan, enough)
	stopWriting()
	settling := time.Now()
	operator.finishing.Store(true)
	w.settle(o.Settle)
	stopOperating()
	r := &Report{
		Seed: o.Seed, Versions: w.versions, Plan: o.Plan, Length: time.Since(started).Round(time.Second),
		Settled: time.Since(settling).Round(time.Millisecond), Faults: faults, Operations: operator.done,
	}
	r.judge(history())
	for _, m := range w.members {
		r.Starts += m.starts
		r.Exits += m.exits
		r.Panics = append(r.Panics, m.panics()...)
	}
	return r
}

// background runs something until the function that it gives is called, at the latest when the test ends; that one
// returns when it has ended.
func background(t testing.TB, run func(context.Context)) (stop func()) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan struct{})
	go func() {
		defer close(done)
		run(ctx)
	}()
	stop = func() {
		cancel()
		<-done
	}
	t.Cleanup(stop)
	return stop
}

// settle waits until everything is published and delivered, or until nothing was for the length of limit: what is
// missing then is for the checker, and not for want of a faster machine.
func (w *world) settle(limit time.Duration) {
	progress, least := time.Now(), -1
	for open := 1; open > 0 && time.Since(progress) < limit; {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(w.t.Context()), 10*time.Second)
		if err := w.db.QueryRow(ctx, `select count(*) from messaging_outbox where not (status = 'PUBLISHED' or (status = 'PARKED' and message_type = '`+badType+`'))`).Scan(&open); err != nil {
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
