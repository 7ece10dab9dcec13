package client_test

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/backend-skeleton/relay/client"
	"github.com/backend-skeleton/relay/messaging"
)

type OrderPlaced struct {
	OrderID string `json:"orderId"`
	Cents   int64  `json:"cents"`
}

// The message exists if, and only if, the order does: both are written by one transaction.
func ExampleClient_InTx() {
	ctx := context.Background()
	pool, err := pgxpool.New(ctx, os.Getenv("DATABASE_URL"))
	if err != nil {
		log.Fatal(err)
	}
	defer pool.Close()

	c, err := client.New(client.Config{Producer: "order-service", Wake: pool})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	orders, err := client.NewOutbox(c, messaging.Destination[OrderPlaced]{Name: "order-events", Type: "order.placed", Version: 1})
	if err != nil {
		log.Fatal(err)
	}

	// Everything that can be refused is refused here, before BEGIN.
	message, err := orders.Prepare(ctx, messaging.Envelope[OrderPlaced]{
		OrderingKey: "4711",
		Payload:     OrderPlaced{OrderID: "4711", Cents: 1999},
	}, nil)
	if err != nil {
		log.Fatal(err)
	}
	err = c.InTx(ctx, pool, func(ctx context.Context, tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `update orders set status = 'PLACED' where id = $1`, "4711"); err != nil {
			return err
		}
		return c.EnqueueBatch(ctx, tx, message)
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("placed; a relay publishes message", message.ID())
}

// A message that arrives twice is applied once.
func ExampleInbox_Handle() {
	ctx := context.Background()
	pool, err := pgxpool.New(ctx, os.Getenv("DATABASE_URL"))
	if err != nil {
		log.Fatal(err)
	}
	defer pool.Close()
	inbox, err := client.NewInbox(pool, client.InboxConfig{Consumer: "order-projection"})
	if err != nil {
		log.Fatal(err)
	}

	payload := []byte(`{"orderId":"4711","cents":1999}`) // as it came from the broker
	received := client.Message{ID: messaging.NewMessageID(), Type: "order.placed", Hash: messaging.HashPayload(payload)}

	outcome, err := inbox.Handle(ctx, received, func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `update revenue set cents = cents + 1999`)
		return err
	})
	switch {
	case err != nil:
		fmt.Println("nothing was applied, let the message come again:", err)
	case outcome == client.First, outcome == client.Duplicate:
		fmt.Println("acknowledge it:", outcome)
	case outcome == client.IntegrityFailure:
		fmt.Println("park it: the id was seen with another payload")
	case outcome == client.Busy:
		fmt.Println("another process is at it: let the message come again")
	}
}
