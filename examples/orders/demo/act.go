package main

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/backend-skeleton/relay/examples/orders"
)

// act runs the story: traffic, two faults in the middle, and the drain.
func (w *world) act(ctx context.Context, say *narrator) error {
	consumer, err := w.startConsumer()
	if err != nil {
		return err
	}
	relayA, idA, err := w.startFirstRelay(ctx)
	if err != nil {
		return err
	}
	relayB, err := w.startRelay(1)
	if err != nil {
		return err
	}
	total := w.total()
	say.step("two relays and a consumer run; the order service sends %d messages at %d steps a second", total, w.rate)
	service, err := w.startService()
	if err != nil {
		return err
	}
	alive := []*process{consumer, relayB}

	if err := w.waitPublished(ctx, total*3/10, alive...); err != nil {
		return err
	}
	if err := w.loseAnswers(ctx, say); err != nil {
		return err
	}
	if err := w.waitPublished(ctx, total/2, alive...); err != nil {
		return err
	}
	if err := w.killInTheAct(ctx, relayA, idA); err != nil {
		return err
	}
	say.step("relay a was killed with %d messages in its hands; when its lease of 3 s ends, another relay takes over", w.faults.claimed)
	if relayA, err = w.startRelay(0); err != nil {
		return err
	}
	say.step("relay a runs again, as a new process")

	if err := w.waitService(ctx, service); err != nil {
		return err
	}
	say.step("every order is placed; waiting until the outbox is empty and the consumers have read everything")
	if err := w.waitDrained(ctx, consumer, relayA, relayB); err != nil {
		return err
	}
	w.took = time.Since(w.started)
	stop, cancel := context.WithTimeout(ctx, 40*time.Second)
	defer cancel()
	return errors.Join(relayA.stop(stop), relayB.stop(stop), consumer.stop(stop))
}

// total is how many messages the bundled orders make.
func (w *world) total() int {
	steps, placed := 0, 0
	for c, err := range orders.Bundled() {
		if err != nil {
			break // the service reports it
		}
		steps++
		if c.Step == orders.Placed {
			placed++
		}
	}
	if w.services.rabbit == "" {
		return steps
	}
	return steps + placed
}

func (w *world) startConsumer() (*process, error) {
	env := []string{"DATABASE_URL=" + w.databaseURL(), "KAFKA_BOOTSTRAP=" + w.services.kafka, "ORDER_TOPIC=" + w.places.Topic}
	if w.services.rabbit != "" {
		env = append(env, "RABBITMQ_URL="+w.services.rabbit, "MAIL_QUEUE="+w.places.Queue)
	}
	return w.programs.start("order-consumer", env, "order-consumer")
}

func (w *world) startService() (*process, error) {
	args := []string{"-rate", fmt.Sprint(w.rate)}
	if w.services.rabbit == "" {
		args = append(args, "-no-mails")
	}
	return w.programs.start("order-service", []string{"DATABASE_URL=" + w.databaseURL()}, "order-service", args...)
}

func (w *world) startRelay(i int) (*process, error) {
	return w.programs.start("relay-"+string("ab"[i]), w.relayEnv(i), "relay", "run", "--config", w.relayFile())
}

// startFirstRelay starts relay a alone and learns the id under which it leases.
func (w *world) startFirstRelay(ctx context.Context) (*process, string, error) {
	r, err := w.startRelay(0)
	if err != nil {
		return nil, "", err
	}
	var id string
	err = eventually(ctx, 50*time.Millisecond, func() (bool, error) {
		if gone, err := r.ended(); gone {
			return false, errors.Join(errors.New("relay a is gone"), err)
		}
		err := w.db.QueryRow(ctx, `select coalesce(min(id::text), '') from messaging_outbox_relay`).Scan(&id)
		return id != "", err
	})
	return r, id, err
}

func (w *world) waitPublished(ctx context.Context, n int, alive ...*process) error {
	return eventually(ctx, 20*time.Millisecond, func() (bool, error) {
		if err := allRun(alive); err != nil {
			return false, err
		}
		published, err := w.count(ctx, `select count(*) from messaging_outbox where status = 'PUBLISHED'`)
		return published >= n, err
	})
}

func allRun(ps []*process) error {
	for _, p := range ps {
		if gone, err := p.ended(); gone {
			return errors.Join(fmt.Errorf("%s is gone, see %s", p.name, p.log), err)
		}
	}
	return nil
}

func (w *world) count(ctx context.Context, sql string, args ...any) (n int, err error) {
	err = w.db.QueryRow(ctx, sql, args...).Scan(&n)
	return n, err
}

// loseAnswers makes each broker's next answer disappear on its way back: the message is stored, and the relay cannot know.
func (w *world) loseAnswers(ctx context.Context, say *narrator) error {
	ctx, cancel := context.WithTimeout(ctx, 15*time.Second)
	defer cancel()
	kafka := w.services.kafkaProxy.LoseNextAnswer()
	var rabbit <-chan struct{}
	if w.services.rabbitProxy != nil {
		rabbit = w.services.rabbitProxy.LoseNextAnswer()
		if err := wait(ctx, rabbit); err != nil {
			return errors.New("no confirm of RabbitMQ came that could have been lost")
		}
		w.faults.answerLost = append(w.faults.answerLost, "RabbitMQ")
		say.step("a confirm of RabbitMQ was lost: stored, and the relay cannot know")
	}
	if err := wait(ctx, kafka); err != nil {
		return errors.New("no answer of Kafka came that could have been lost")
	}
	w.faults.answerLost = append(w.faults.answerLost, "Kafka")
	say.step("an answer of Kafka was lost: the idempotent producer asks again, and the broker stores no second copy")
	return nil
}

func wait(ctx context.Context, done <-chan struct{}) error {
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// killInTheAct kills the relay while rows are on the wire. It stops the process when it sees claimed rows, looks again once
// the statements under way have ended, and kills it if they are claimed still.
func (w *world) killInTheAct(ctx context.Context, r *process, id string) error {
	const patience, settle = 10 * time.Second, 300 * time.Millisecond
	claimed := func() (int, error) {
		return w.count(ctx, `select count(*) from messaging_outbox_status where status = 'CLAIMED' and lease_owner::text = $1`, id)
	}
	give := time.Now().Add(patience)
	err := eventually(ctx, time.Millisecond, func() (bool, error) {
		n, err := claimed()
		if err != nil || (n == 0 && time.Now().Before(give)) {
			return false, err
		}
		r.signal(syscall.SIGSTOP)
		if err := pause(ctx, settle); err != nil {
			return false, err
		}
		n, err = claimed()
		if err != nil || (n == 0 && time.Now().Before(give)) {
			r.signal(syscall.SIGCONT)
			return false, err
		}
		w.faults.claimed = n
		return true, nil
	})
	if err != nil {
		return err
	}
	r.kill()
	return nil
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (w *world) waitService(ctx context.Context, service *process) error {
	if err := wait(ctx, service.done); err != nil {
		return fmt.Errorf("the order service did not end: %w", err)
	}
	_, err := service.ended()
	return err
}

// waitDrained waits for the relays, then for the consumers. Consumers that never see everything are no error here: the
// table says what was lost.
func (w *world) waitDrained(ctx context.Context, alive ...*process) error {
	err := eventually(ctx, 100*time.Millisecond, func() (bool, error) {
		if err := allRun(alive); err != nil {
			return false, err
		}
		open, err := w.count(ctx, `select count(*) from messaging_outbox where status not in ('PUBLISHED', 'PARKED')`)
		return open == 0, err
	})
	if err != nil {
		return fmt.Errorf("the outbox was not emptied: %w", err)
	}
	patience, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	err = eventually(patience, 200*time.Millisecond, func() (bool, error) {
		if err := allRun(alive); err != nil {
			return false, err
		}
		return w.consumersHaveReadEverything(patience)
	})
	if patience.Err() != nil && ctx.Err() == nil {
		return nil
	}
	return err
}

// consumersHaveReadEverything compares what the brokers hold with the deliveries that were noted.
func (w *world) consumersHaveReadEverything(ctx context.Context) (bool, error) {
	stored, err := w.storedInTopic(ctx)
	if err != nil {
		return false, err
	}
	read, err := w.count(ctx, `select count(distinct position) from delivery where consumer = $1`, orders.Projection)
	if err != nil || read < stored {
		return false, err
	}
	if w.services.rabbit == "" {
		return true, nil
	}
	left, err := w.leftInQueue()
	if err != nil || left > 0 {
		return false, err
	}
	missing, err := w.count(ctx, `select count(*) from mail_requested m
		where not exists (select from delivery d where d.message_id = m.message_id)`)
	return missing == 0, err
}
