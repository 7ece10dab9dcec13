package orders

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/pgxpool"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/backend-skeleton/relay/messaging/transport"
)

// ConsumeMails works on the queue until ctx ends. A delivery is acknowledged after its effect has committed; what is not
// acknowledged when the connection ends comes again.
func ConsumeMails(ctx context.Context, db *pgxpool.Pool, url, queue string) error {
	r, err := newReceiver(db, Mailer, sendMail)
	if err != nil {
		return err
	}
	conn, err := amqp.Dial(url)
	if err != nil {
		return errors.New("consume mail requests: the broker does not answer") // the library's text may hold the password
	}
	defer func() { _ = conn.Close() }() // what is not acknowledged comes again, whatever it answers
	ch, err := conn.Channel()
	if err != nil {
		return fmt.Errorf("consume mail requests: open a channel: %w", err)
	}
	if err := ch.Qos(16, 0, false); err != nil {
		return fmt.Errorf("consume mail requests: set the prefetch: %w", err)
	}
	deliveries, err := ch.ConsumeWithContext(ctx, queue, "", false, false, false, false, nil)
	if err != nil {
		return fmt.Errorf("consume mail requests: %w", err)
	}
	for d := range deliveries {
		if err := r.work(ctx, d); err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return fmt.Errorf("consume mail requests: %w", err)
		}
	}
	if ctx.Err() != nil {
		return nil
	}
	return errors.New("consume mail requests: the broker closed the channel")
}

func (r *receiver) work(ctx context.Context, d amqp.Delivery) error {
	headers := make([]transport.Header, 0, len(d.Headers))
	for name, v := range d.Headers {
		if text, ok := v.(string); ok {
			headers = append(headers, transport.Header{Name: name, Value: []byte(text)})
		}
	}
	position := fmt.Sprintf("rabbitmq:%s/redelivered=%t", d.RoutingKey, d.Redelivered)
	if err := r.untilHandled(ctx, headers, d.Body, position); err != nil {
		return err
	}
	return d.Ack(false)
}
