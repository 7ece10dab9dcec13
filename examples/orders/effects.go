package orders

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/backend-skeleton/relay/client"
	"github.com/backend-skeleton/relay/messaging"
	"github.com/backend-skeleton/relay/messaging/transport"
)

// effect is what one consumer does with one message, in the transaction of the reservation.
type effect func(ctx context.Context, tx pgx.Tx, id messaging.MessageID, payload []byte) error

// receiver turns a delivery of either broker into at most one effect. It never acknowledges: the caller does, when handle
// returned nil.
type receiver struct {
	db       *pgxpool.Pool
	consumer messaging.ConsumerName
	inbox    *client.Inbox
	effect   effect
}

func newReceiver(db *pgxpool.Pool, consumer messaging.ConsumerName, do effect) (*receiver, error) {
	inbox, err := client.NewInbox(db, client.InboxConfig{Consumer: consumer})
	if err != nil {
		return nil, err
	}
	return &receiver{db: db, consumer: consumer, inbox: inbox, effect: do}, nil
}

// errLater says that the delivery was not settled by the inbox and has to come again.
var errLater = errors.New("another try holds the message")

// handle applies the delivery once. nil means: acknowledge. Any error means: leave it, it has to be handled again.
func (r *receiver) handle(ctx context.Context, headers []transport.Header, payload []byte, position string) error {
	wire, err := transport.DecodeHeaders(headers)
	if err != nil {
		// A foreign or broken message never becomes readable by waiting. A real service parks it; here nobody else writes.
		return r.note(ctx, messaging.MessageID{}, position, "FOREIGN")
	}
	m := client.Message{ID: wire.ID, Type: wire.Type, Hash: messaging.HashPayload(payload)}
	outcome, err := r.inbox.Handle(ctx, m, func(ctx context.Context, tx pgx.Tx) error {
		return r.effect(ctx, tx, wire.ID, payload)
	})
	if err != nil {
		return err // the reservation went with the effect; ErrCommitUnknown is settled by the next try as well
	}
	if err := r.note(ctx, wire.ID, position, outcome.String()); err != nil {
		return err
	}
	if outcome == client.Busy {
		return errLater
	}
	return nil
}

// untilHandled is handle, again and again until it answers or ctx ends: order matters more than speed here.
func (r *receiver) untilHandled(ctx context.Context, headers []transport.Header, payload []byte, position string) error {
	for {
		err := r.handle(ctx, headers, payload, position)
		if err == nil || ctx.Err() != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(200 * time.Millisecond):
		}
	}
}

func (r *receiver) note(ctx context.Context, id messaging.MessageID, position, outcome string) error {
	var text any
	if !id.IsZero() {
		text = id.String()
	}
	_, err := r.db.Exec(ctx, `insert into delivery (consumer, message_id, position, outcome) values ($1, $2, $3, $4)`,
		r.consumer, text, position, outcome)
	return err
}

// project keeps the projection. It does not check versions: whether they arrive in order is what the demo counts.
func project(ctx context.Context, tx pgx.Tx, id messaging.MessageID, payload []byte) error {
	var e StepTaken
	if err := json.Unmarshal(payload, &e); err != nil {
		return fmt.Errorf("read an order event: %w", err)
	}
	if _, err := tx.Exec(ctx, `insert into order_projection (order_id, step, version) values ($1, $2, $3)
		on conflict (order_id) do update set step = excluded.step, version = excluded.version`, e.OrderID, e.Step, e.Version); err != nil {
		return err
	}
	return noteEffect(ctx, tx, Projection, id, e.OrderID, e.Version)
}

// sendMail stands for the mail. A real one is no database effect: pass the message id to the provider as its idempotency key.
func sendMail(ctx context.Context, tx pgx.Tx, id messaging.MessageID, payload []byte) error {
	var m MailWanted
	if err := json.Unmarshal(payload, &m); err != nil {
		return fmt.Errorf("read a mail request: %w", err)
	}
	return noteEffect(ctx, tx, Mailer, id, m.OrderID, 1)
}

func noteEffect(ctx context.Context, tx pgx.Tx, c messaging.ConsumerName, id messaging.MessageID, order string, version int) error {
	_, err := tx.Exec(ctx, `insert into effect (consumer, message_id, order_id, version) values ($1, $2, $3, $4)`,
		c, id.String(), order, version)
	return err
}
