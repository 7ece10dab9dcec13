package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// places are the names that a run makes on the servers. They stay after it, so that one can look around, and go when the next
// run begins.
type places struct {
	Database string `json:"database"`
	Topic    string `json:"topic"`
	Exchange string `json:"exchange"`
	Queue    string `json:"queue"`
}

func newPlaces(now time.Time) places {
	run := strconv.FormatInt(now.Unix(), 36)
	return places{
		Database: "relay_demo_" + run, Topic: "relay.demo.order-events." + run,
		Exchange: "relay.demo.notification." + run, Queue: "relay.demo.email." + run,
	}
}

// remember writes the places down for the next run's clean-up.
func (p places) remember(dir string) error {
	text, err := json.MarshalIndent(p, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "places.json"), append(text, '\n'), 0o644)
}

// forget removes what the run before this one left. Servers may have changed since, so what is gone already is fine.
func forget(ctx context.Context, dir string, s *services) error {
	text, err := os.ReadFile(filepath.Join(dir, "places.json"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	var old places
	if err == nil {
		err = json.Unmarshal(text, &old)
	}
	if err != nil {
		return fmt.Errorf("read what the last run left: %w", err)
	}
	if err := onServer(ctx, s, "drop database if exists "+pgx.Identifier{old.Database}.Sanitize()+" with (force)"); err != nil {
		return err
	}
	return errors.Join(old.forgetTopic(ctx, s), old.forgetQueue(s))
}

func onServer(ctx context.Context, s *services, sql string) error {
	conn, err := pgx.Connect(ctx, s.postgres)
	if err != nil {
		return fmt.Errorf("connect to PostgreSQL: %w", err)
	}
	defer conn.Close(ctx)
	_, err = conn.Exec(ctx, sql)
	return err
}

func (s *services) admin() (*kadm.Client, error) {
	cl, err := kgo.NewClient(kgo.SeedBrokers(s.kafkaSeeds()...))
	if err != nil {
		return nil, err
	}
	return kadm.NewClient(cl), nil
}

func (p places) makeTopic(ctx context.Context, s *services) error {
	const partitions = 6
	admin, err := s.admin()
	if err != nil {
		return err
	}
	defer admin.Close()
	// -1: the cluster's own default
	if _, err := admin.CreateTopic(ctx, partitions, -1, nil, p.Topic); err != nil {
		return fmt.Errorf("create the topic: %w", err)
	}
	return nil
}

func (p places) forgetTopic(ctx context.Context, s *services) error {
	if s.kafka == "" {
		return nil
	}
	admin, err := s.admin()
	if err != nil {
		return err
	}
	defer admin.Close()
	if _, err := admin.DeleteTopic(ctx, p.Topic); err != nil && !errors.Is(err, kerr.UnknownTopicOrPartition) {
		return fmt.Errorf("delete the last run's topic: %w", err)
	}
	return nil
}

func (s *services) channel(do func(*amqp.Channel) error) error {
	conn, err := amqp.Dial(s.rabbit)
	if err != nil {
		return errors.New("connect to RabbitMQ: it does not answer or refuses the user")
	}
	defer func() { _ = conn.Close() }() // the work is done or has failed by then
	ch, err := conn.Channel()
	if err != nil {
		return fmt.Errorf("open a channel: %w", err)
	}
	return do(ch)
}

func (p places) makeQueue(s *services) error {
	if s.rabbit == "" {
		return nil
	}
	return s.channel(func(ch *amqp.Channel) error {
		if err := ch.ExchangeDeclare(p.Exchange, "direct", true, false, false, false, nil); err != nil {
			return fmt.Errorf("declare the exchange: %w", err)
		}
		if _, err := ch.QueueDeclare(p.Queue, true, false, false, false, amqp.Table{"x-queue-type": "quorum"}); err != nil {
			return fmt.Errorf("declare the queue: %w", err)
		}
		if err := ch.QueueBind(p.Queue, "email", p.Exchange, false, nil); err != nil {
			return fmt.Errorf("bind the queue: %w", err)
		}
		return nil
	})
}

func (p places) forgetQueue(s *services) error {
	if s.rabbit == "" {
		return nil
	}
	return s.channel(func(ch *amqp.Channel) error {
		if _, err := ch.QueueDelete(p.Queue, false, false, false); err != nil {
			return fmt.Errorf("delete the last run's queue: %w", err)
		}
		return ch.ExchangeDelete(p.Exchange, false, false)
	})
}

// storedInTopic is how many records the topic holds.
func (w *world) storedInTopic(ctx context.Context) (int, error) {
	admin, err := w.services.admin()
	if err != nil {
		return 0, err
	}
	defer admin.Close()
	ends, err := admin.ListEndOffsets(ctx, w.places.Topic)
	if err != nil {
		return 0, fmt.Errorf("read the topic's end: %w", err)
	}
	n := 0
	ends.Each(func(o kadm.ListedOffset) { n += int(o.Offset) })
	return n, ends.Error()
}

// leftInQueue is how many messages wait in the queue.
func (w *world) leftInQueue() (n int, err error) {
	err = w.services.channel(func(ch *amqp.Channel) error {
		q, err := ch.QueueDeclarePassive(w.places.Queue, true, false, false, false, nil)
		n = q.Messages
		return err
	})
	return n, err
}
