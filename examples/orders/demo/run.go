package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

// run is the demo from beginning to end.
func run(ctx context.Context, o options, out io.Writer) (err error) {
	say := newNarrator(out)
	if o.dir, err = filepath.Abs(o.dir); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Join(o.dir, "log"), 0o755); err != nil {
		return fmt.Errorf("make the demo's folder: %w", err)
	}
	say.step("servers: what is given is used, the rest is started (the first time also downloaded)")
	s, err := findServices(ctx, o.dir, say)
	if err != nil {
		return err
	}
	defer s.close()

	say.step("building relay, inboxctl and the example's programs")
	p := &processes{dir: o.dir}
	defer p.killAll()
	if err := p.build(ctx); err != nil {
		return err
	}

	ctx, cancel := context.WithTimeout(ctx, o.limit)
	defer cancel()
	w, err := setUp(ctx, o, s, p)
	if err != nil {
		return err
	}
	defer w.close()
	say.step("database %s, topic %s%s", w.places.Database, w.places.Topic, w.queueText())
	say.step("while it runs: http://%s/actuator/messaging/outbox and http://%s/metrics", w.listen[0], w.listen[1])

	if err := w.act(ctx, say); err != nil {
		return err
	}
	v, err := w.judge(ctx)
	if err != nil {
		return err
	}
	if err := w.leaveFiles(); err != nil {
		return err
	}
	v.print(out)
	w.printWhereNext(out)
	if !v.holds() {
		return errBroken
	}
	return nil
}

// world is what a run works with.
type world struct {
	options
	services *services
	programs *processes
	places   places
	db       *pgxpool.Pool
	listen   [2]string // the actuators of the two relays
	faults   faults
	started  time.Time
	took     time.Duration
}

// faults is what was done to the system.
type faults struct {
	claimed    int // rows that the killed relay held
	answerLost []string
}

func (f faults) String() string {
	return fmt.Sprintf("a relay was killed with %d messages in its hands, and an answer of %s was lost", f.claimed, strings.Join(f.answerLost, " and one of "))
}

func (w *world) close() {
	if w.db != nil {
		w.db.Close()
	}
}

func (w *world) queueText() string {
	if w.services.rabbit == "" {
		return "; RabbitMQ's half is left out"
	}
	return ", queue " + w.places.Queue
}
