package client

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/backend-skeleton/relay/messaging"
)

// Outbox writes messages of one type to one destination. It is safe for concurrent use.
type Outbox[T any] struct {
	c   *Client
	d   messaging.Destination[T]
	raw bool // its payloads go without a schema
}

// EnqueueOptions are the parts of a row that are no part of the envelope. Nil means none.
type EnqueueOptions struct {
	// AvailableAt: the message is not published before it, by the database clock. Zero, or in the past: at once.
	AvailableAt time.Time
	// AggregateType and AggregateID name the business object that the message speaks of, up to 160 and 320 characters.
	// Where the destination takes its key from the aggregate, the id fills an empty ordering key.
	AggregateType, AggregateID string
}

// NewOutbox checks the destination's names and that a codec is there for it.
func NewOutbox[T any](c *Client, d messaging.Destination[T]) (*Outbox[T], error) {
	const op = "new outbox"
	if _, err := messaging.ParseDestinationName(string(d.Name)); err != nil {
		return nil, refused(op, messaging.ErrConfiguration, d.Name, err)
	}
	if _, err := messaging.ParseMessageType(string(d.Type)); err != nil {
		return nil, refused(op, messaging.ErrConfiguration, d.Name, err)
	}
	if d.Version < 1 {
		return nil, refused(op, messaging.ErrConfiguration, d.Name, errors.New("the schema version is not a whole number from 1"))
	}
	if _, err := c.codec("", c.profile(d.Name).ContentType); err != nil {
		return nil, refused(op, messaging.ErrConfiguration, d.Name, err)
	}
	switch any(*new(T)).(type) {
	case messaging.Tombstone:
		return nil, refused(op, messaging.ErrCapabilityUnavailable, d.Name, errors.New("the payload of an outbox row is never null"))
	case messaging.Raw:
		if !c.profile(d.Name).RawBytes {
			return nil, refused(op, messaging.ErrCapabilityUnavailable, d.Name, errors.New("raw bytes need the grant RAW_BYTES in the destination's profile"))
		}
		return &Outbox[T]{c: c, d: d, raw: true}, nil
	}
	return &Outbox[T]{c: c, d: d}, nil
}

// Enqueue prepares one message and inserts it in the caller's transaction. It returns the id: the envelope's, or a fresh
// one where that is unset. After COMMIT call [Client.Woken], or use [Client.InTx], which does.
//
// Errors: those of [Outbox.Prepare], before anything is sent to the database, and those of the database, which break
// the transaction as any failed statement does.
func (o *Outbox[T]) Enqueue(ctx context.Context, tx pgx.Tx, e messaging.Envelope[T], x *EnqueueOptions) (messaging.MessageID, error) {
	p, err := o.Prepare(ctx, e, x)
	if err != nil {
		return messaging.MessageID{}, err
	}
	return p.ID(), o.c.EnqueueBatch(ctx, tx, p)
}

// EnqueueSQL is [Outbox.Enqueue] for database/sql.
func (o *Outbox[T]) EnqueueSQL(ctx context.Context, tx *sql.Tx, e messaging.Envelope[T], x *EnqueueOptions) (messaging.MessageID, error) {
	p, err := o.Prepare(ctx, e, x)
	if err != nil {
		return messaging.MessageID{}, err
	}
	return p.ID(), o.c.EnqueueBatchSQL(ctx, tx, p)
}
