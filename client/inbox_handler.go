package client

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/backend-skeleton/relay/messaging"
)

// InboxHandler makes a handler that runs fn in the transaction of the inbox: the delivery is settled only after COMMIT.
// A first delivery and a duplicate are successes; the same id with another payload is a dead letter with the code
// INTEGRITY_MISMATCH. A wait that ended, an unknown commit and an unreachable database are transient failures of the
// infrastructure, which spend no attempt. Any other error of fn is classified as by [messaging.FromError].
//
// The handler is [messaging.InboxBound].
func InboxHandler[T any](i *Inbox, fn func(context.Context, pgx.Tx, messaging.Delivery[T]) error) messaging.Handler[T] {
	return inboxHandler[T]{consumer: i.config.Consumer, Handler: messaging.FromError(func(ctx context.Context, d messaging.Delivery[T]) error {
		return verdict(i.Handle(ctx, messageOf(d), func(ctx context.Context, tx pgx.Tx) error { return fn(ctx, tx, d) }))
	})}
}

// InboxHandlerSQL is [InboxHandler] for database/sql.
func InboxHandlerSQL[T any](i *Inbox, fn func(context.Context, *sql.Tx, messaging.Delivery[T]) error) messaging.Handler[T] {
	return inboxHandler[T]{consumer: i.config.Consumer, Handler: messaging.FromError(func(ctx context.Context, d messaging.Delivery[T]) error {
		return verdict(i.HandleSQL(ctx, messageOf(d), func(ctx context.Context, tx *sql.Tx) error { return fn(ctx, tx, d) }))
	})}
}

type inboxHandler[T any] struct {
	messaging.Handler[T]
	consumer messaging.ConsumerName
}

var _ messaging.InboxBound = inboxHandler[string]{}

// InboxConsumer gives the name under which the inbox remembers.
func (h inboxHandler[T]) InboxConsumer() messaging.ConsumerName { return h.consumer }

func messageOf[T any](d messaging.Delivery[T]) Message {
	return Message{ID: d.ID, Type: d.Type, Hash: d.Hash}
}

func verdict(o Outcome, err error) error {
	infrastructure := func(code, text string, cause error) error {
		return messaging.NewFailure(messaging.CategoryTransientInfrastructure, code, text).WithCause(cause)
	}
	switch {
	case errors.Is(err, ErrCommitUnknown):
		return infrastructure(messaging.CodeCommitUnknown, "the database did not answer COMMIT", err)
	case unavailable(err):
		return infrastructure(messaging.CodeDatabase, "the database cannot be reached", err)
	case err != nil:
		return err
	case o == Busy:
		return infrastructure(messaging.CodeInboxBusy, "another try of the message is still open", nil)
	case o == IntegrityFailure:
		return messaging.NewFailure(messaging.CategoryValidation, messaging.CodeIntegrityMismatch, "the message id was seen with another payload")
	}
	return nil
}

// unavailable knows a database that cannot be reached, is going down, is starting or has no room.
func unavailable(err error) bool {
	var failure *messaging.Failure
	switch {
	case err == nil, errors.As(err, &failure): // fn has classified it
		return false
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded): // the caller's time is over
		return false
	}
	var connect *pgconn.ConnectError
	if errors.As(err, &connect) || errors.Is(err, driver.ErrBadConn) || pgconn.SafeToRetry(err) {
		return true
	}
	state := sqlState(err)
	return strings.HasPrefix(state, "08") || strings.HasPrefix(state, "53") || strings.HasPrefix(state, "57P")
}
