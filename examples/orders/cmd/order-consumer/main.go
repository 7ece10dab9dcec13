// Command order-consumer keeps the order projection from Kafka and sends the mails that RabbitMQ asks for, each message once.
//
//	DATABASE_URL=postgres://… KAFKA_BOOTSTRAP=host:port ORDER_TOPIC=… [RABBITMQ_URL=amqp://… MAIL_QUEUE=…] order-consumer
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"

	"github.com/backend-skeleton/relay/examples/orders"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "order-consumer:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	db, err := pgxpool.New(ctx, os.Getenv("DATABASE_URL"))
	if err != nil {
		return err
	}
	defer db.Close()
	both, ctx := errgroup.WithContext(ctx)
	both.Go(func() error {
		return orders.ConsumeEvents(ctx, db, strings.Split(os.Getenv("KAFKA_BOOTSTRAP"), ","), os.Getenv("ORDER_TOPIC"))
	})
	if url := os.Getenv("RABBITMQ_URL"); url != "" {
		both.Go(func() error { return orders.ConsumeMails(ctx, db, url, os.Getenv("MAIL_QUEUE")) })
	}
	return both.Wait()
}
