// Command order-service carries out the bundled commands, one transaction each, at a steady rate.
//
//	DATABASE_URL=postgres://… order-service [-rate 100] [-no-mails]
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/backend-skeleton/relay/examples/orders"
)

func main() {
	rate := flag.Int("rate", 100, "commands a second")
	noMails := flag.Bool("no-mails", false, "leave the mail requests out")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *rate, *noMails); err != nil {
		fmt.Fprintln(os.Stderr, "order-service:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, rate int, noMails bool) error {
	if rate < 1 {
		return fmt.Errorf("-rate %d: want 1 or more", rate)
	}
	db, err := pgxpool.New(ctx, os.Getenv("DATABASE_URL"))
	if err != nil {
		return err
	}
	defer db.Close()
	service, err := orders.NewService(orders.Config{DB: db, NoMails: noMails})
	if err != nil {
		return err
	}
	pace := time.NewTicker(time.Second / time.Duration(rate))
	defer pace.Stop()
	for c, err := range orders.Bundled() {
		if err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-pace.C:
		}
		if err := service.Do(ctx, c); err != nil {
			return err
		}
	}
	return nil
}
