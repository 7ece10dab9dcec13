// Command demo shows the whole way of a message on real servers, and what is left of it when things break: an order service
// places orders in its own transactions, two relays publish to Kafka and RabbitMQ, a consumer with the inbox keeps a
// projection. Half way one relay is killed and brokers' answers are lost. The table at the end counts what became of
// every message; the exit code is 0 if nothing was lost, renamed, applied twice or put out of order.
//
//	go run ./examples/orders/demo [-rate 100] [-dir .services/demo]
//
// Servers whose addresses are set (PG_URL_17, KAFKA_BOOTSTRAP, RABBITMQ_URL_1, RABBITMQ_API_1) are used as they are; the others are
// started by tools/services/up.sh.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// errBroken says that the run went through and an invariant did not hold.
var errBroken = errors.New("an invariant did not hold")

func main() {
	var o options
	flag.IntVar(&o.rate, "rate", 100, "orders' steps a second")
	flag.StringVar(&o.dir, "dir", ".services/demo", "folder for binaries, configuration and logs")
	flag.DurationVar(&o.limit, "limit", 3*time.Minute, "longest run, downloads and the start of servers aside")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, o, os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

type options struct {
	rate  int
	dir   string
	limit time.Duration
}
