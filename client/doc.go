// Package client is what a service needs of relay on its own side of PostgreSQL: it writes messages into the outbox in
// the service's own transaction, and it processes each received message once with the inbox.
//
// The outbox: prepare the message before BEGIN, insert it beside the business change, commit.
//
//	orders, err := client.NewOutbox(c, messaging.Destination[Order]{Name: "order-events", Type: "order.created", Version: 1})
//	…
//	message, err := orders.Prepare(ctx, envelope, nil)
//	err = c.InTx(ctx, pool, func(ctx context.Context, tx pgx.Tx) error {
//		if _, err := tx.Exec(ctx, "insert into orders …"); err != nil {
//			return err
//		}
//		return c.EnqueueBatch(ctx, tx, message)
//	})
//
// The message is published by a relay if, and only if, that transaction commits. The outbox does not prevent duplicates:
// where a broker's answer is lost the message goes out again, under the same id. The inbox removes them, for effects in
// the database of the consumer:
//
//	outcome, err := inbox.Handle(ctx, client.Message{ID: id, Type: t, Hash: hash}, func(ctx context.Context, tx pgx.Tx) error {
//		_, err := tx.Exec(ctx, "update projection …")
//		return err
//	})
//
// Everything exists for pgx and, with the suffix SQL, for database/sql with any PostgreSQL driver. The package links no
// broker library.
package client
