package orders

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/backend-skeleton/relay/client"
)

// Schema is the DDL of the example's own tables; it may run again.
//
//go:embed schema.sql
var Schema string

// ErrOutOfStep says that a command does not fit the order: the order is unknown, or it stands there already.
var ErrOutOfStep = errors.New("the order is not at that step")

// Config is what a service is made of.
type Config struct {
	// DB holds the orders and the outbox. Required.
	DB *pgxpool.Pool
	// NoMails leaves the mail requests out, for installations without a broker for them.
	NoMails bool
}

// Service moves orders. It is safe for concurrent use.
type Service struct {
	config Config
	client *client.Client
	events *client.Outbox[StepTaken]
	mails  *client.Outbox[MailWanted]
}

// NewService makes the service over its database. The wake-up goes out over the same pool.
func NewService(config Config) (*Service, error) {
	c, err := client.New(client.Config{Producer: Producer, Wake: config.DB})
	if err != nil {
		return nil, err
	}
	events, err := client.NewOutbox(c, Events)
	if err != nil {
		return nil, err
	}
	mails, err := client.NewOutbox(c, Mails)
	if err != nil {
		return nil, err
	}
	return &Service{config: config, client: c, events: events, mails: mails}, nil
}

// Do carries out one command in one transaction: the order, its history, and the messages about it. Either all of it
// happened or nothing; if the answer to COMMIT was lost, the error says so and the command may be tried again.
func (s *Service) Do(ctx context.Context, c Command) error {
	err := s.client.InTx(ctx, s.config.DB, func(ctx context.Context, tx pgx.Tx) error {
		version, err := moveOrder(ctx, tx, c)
		if err != nil {
			return err
		}
		if err := s.announce(ctx, tx, c, version); err != nil {
			return err
		}
		if c.Step == Placed && !s.config.NoMails {
			return s.requestMail(ctx, tx, c)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("move an order to %s: %w", c.Step, err)
	}
	return nil
}

// moveOrder changes the order's row. Writers of one order take turns on it, so that the outbox rows of the order are written
// in the order of their commits.
func moveOrder(ctx context.Context, tx pgx.Tx, c Command) (version int, err error) {
	if c.Step == Placed {
		tag, err := tx.Exec(ctx, `insert into orders (order_id, customer, total_cents, step, version)
			values ($1, $2, $3, $4, 1) on conflict do nothing`, c.OrderID, c.Customer, c.TotalCents, c.Step)
		if err == nil && tag.RowsAffected() == 0 {
			err = ErrOutOfStep
		}
		return 1, err
	}
	err = tx.QueryRow(ctx, `update orders set step = $2, version = version + 1
		where order_id = $1 and step = $3 returning version`, c.OrderID, c.Step, before(c.Step)).Scan(&version)
	if errors.Is(err, pgx.ErrNoRows) {
		err = ErrOutOfStep
	}
	return version, err
}

func before(s Step) Step {
	switch s {
	case Paid:
		return Placed
	case Packed:
		return Paid
	case Shipped:
		return Packed
	}
	return ""
}

func (s *Service) announce(ctx context.Context, tx pgx.Tx, c Command, version int) error {
	e := Events.New(StepTaken{OrderID: c.OrderID, Step: c.Step, Version: version})
	e.OrderingKey = c.OrderID
	e.OccurredAt = time.Now()
	id, err := s.events.Enqueue(ctx, tx, e, &client.EnqueueOptions{AggregateType: "order", AggregateID: c.OrderID})
	if err != nil {
		return err
	}
	_, err = tx.Exec(ctx, `insert into order_history (order_id, version, step, message_id) values ($1, $2, $3, $4)`,
		c.OrderID, version, c.Step, id.String())
	return err
}

func (s *Service) requestMail(ctx context.Context, tx pgx.Tx, c Command) error {
	id, err := s.mails.Enqueue(ctx, tx, Mails.New(MailWanted{OrderID: c.OrderID, Template: "order-confirmation"}),
		&client.EnqueueOptions{AggregateType: "order", AggregateID: c.OrderID})
	if err != nil {
		return err
	}
	_, err = tx.Exec(ctx, `insert into mail_requested (order_id, message_id) values ($1, $2)`, c.OrderID, id.String())
	return err
}
