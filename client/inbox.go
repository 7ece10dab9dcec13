package client

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/backend-skeleton/relay/internal/inbox"
	"github.com/backend-skeleton/relay/messaging"
)

// Defaults of InboxConfig.
const (
	DefaultInboxRetention     = 30 * 24 * time.Hour
	DefaultRetrySerialization = 3
)

// InboxConfig is the configuration of one consumer's inbox. Consumer alone is required.
type InboxConfig struct {
	// Consumer is the name under which messages are remembered: each consumer processes a message once.
	Consumer messaging.ConsumerName
	// Retention is how long a message is remembered, default 30 days. It must be longer than anything can bring the
	// message back: broker retention, dead letters, replay and redrive together.
	Retention time.Duration
	// LockWait bounds the wait for another open try of the same message, after which the outcome is BUSY. Default: nine
	// tenths of what is left of the context, without a deadline no bound of its own.
	LockWait time.Duration
	// RetrySerialization is how often a try that the database ended by a serialization failure or a deadlock is
	// repeated inside Handle. Default 3; negative: never.
	RetrySerialization int
}

// Message is what the inbox must know of a delivery. Hash is over the payload bytes that travelled.
type Message struct {
	ID   messaging.MessageID
	Type messaging.MessageType
	Hash messaging.PayloadHash
}

// Inbox processes each message once per consumer, for side effects in its database. It is safe for concurrent use.
type Inbox struct {
	config InboxConfig
	pool   *pgxpool.Pool // either
	db     *sql.DB       // or
}

// NewInbox makes an inbox for [Inbox.Handle].
func NewInbox(pool *pgxpool.Pool, c InboxConfig) (*Inbox, error) {
	i, err := newInbox(c)
	if err == nil && pool == nil {
		err = errors.New("the pool is nil")
	}
	if err != nil {
		return nil, refused("new inbox", messaging.ErrConfiguration, "", err)
	}
	i.pool = pool
	return i, nil
}

// NewInboxSQL makes an inbox for [Inbox.HandleSQL], with any PostgreSQL driver.
func NewInboxSQL(db *sql.DB, c InboxConfig) (*Inbox, error) {
	i, err := newInbox(c)
	if err == nil && db == nil {
		err = errors.New("the database handle is nil")
	}
	if err != nil {
		return nil, refused("new inbox", messaging.ErrConfiguration, "", err)
	}
	i.db = db
	return i, nil
}

func newInbox(c InboxConfig) (*Inbox, error) {
	_, err := messaging.ParseConsumerName(string(c.Consumer))
	switch {
	case err != nil:
		return nil, err
	case c.Retention < 0 || c.LockWait < 0:
		return nil, errors.New("retention and lock wait are not negative")
	}
	if c.Retention == 0 {
		c.Retention = DefaultInboxRetention
	}
	if c.RetrySerialization == 0 {
		c.RetrySerialization = DefaultRetrySerialization
	}
	return &Inbox{config: c}, nil
}

// Handle reserves the message, runs fn in the same transaction and commits. If fn fails, the reservation is rolled back
// with the side effect, and the message may come again. fn runs at most once per committed message and consumer, but it
// may run again after a try that was rolled back: nothing in it may outlive the transaction.
//
// The error comes from fn, from the database, or is [ErrCommitUnknown]; then there is no outcome.
func (i *Inbox) Handle(ctx context.Context, m Message, fn func(context.Context, pgx.Tx) error) (Outcome, error) {
	if i.pool == nil {
		return 0, refused("handle", messaging.ErrConfiguration, "", errors.New("the inbox was made for database/sql: use HandleSQL"))
	}
	return handle(ctx, i.config, m, func(ctx context.Context) (transaction, error) {
		tx, err := i.pool.Begin(ctx)
		if err != nil {
			return transaction{}, fmt.Errorf("begin: %w", err)
		}
		return transaction{
			session:  inbox.Pgx(tx),
			run:      func(ctx context.Context) error { return fn(ctx, tx) },
			commit:   func(ctx context.Context) error { return commitError(tx.Commit(ctx)) },
			rollback: func(ctx context.Context) { rollback(ctx, tx) },
		}, nil
	})
}

// HandleSQL is [Inbox.Handle] for database/sql.
func (i *Inbox) HandleSQL(ctx context.Context, m Message, fn func(context.Context, *sql.Tx) error) (Outcome, error) {
	if i.db == nil {
		return 0, refused("handle", messaging.ErrConfiguration, "", errors.New("the inbox was made for pgx: use Handle"))
	}
	return handle(ctx, i.config, m, func(ctx context.Context) (transaction, error) {
		tx, err := i.db.BeginTx(ctx, nil)
		if err != nil {
			return transaction{}, fmt.Errorf("begin: %w", err)
		}
		return transaction{
			session:  inbox.SQL(tx),
			run:      func(ctx context.Context) error { return fn(ctx, tx) },
			commit:   func(ctx context.Context) error { return commitSQL(ctx, i.db, tx) },
			rollback: func(context.Context) { _ = tx.Rollback() },
		}, nil
	})
}
