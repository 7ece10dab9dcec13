package inbox

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/backend-skeleton/relay/internal/inbox/inboxdb"
	"github.com/backend-skeleton/relay/internal/inbox/inboxsql"
	"github.com/backend-skeleton/relay/messaging"
)

// Reservation is what the row of a message says.
type Reservation struct {
	Consumer  messaging.ConsumerName
	ID        messaging.MessageID
	Type      messaging.MessageType
	Hash      messaging.PayloadHash
	Retention time.Duration
	// LockWait bounds the wait for another open try of the same message, in whole milliseconds. Zero: the session's own
	// lock_timeout.
	LockWait time.Duration
}

// Verdict says what a reservation found. Zero is none.
type Verdict uint8

// The verdicts of Reserve.
const (
	Reserved  Verdict = iota + 1 // the side effect may run in this transaction
	Duplicate                    // another transaction has committed the same message
	Mismatch                     // another transaction has committed the same id with another payload
	Busy                         // another try was still open when the wait ended; the transaction is broken
	Vanished                     // the row was there and is gone: it was just pruned
)

// Session is one transaction, of whatever driver.
type Session struct{ q queries }

// queries is what both generated packages offer.
type queries interface {
	reserve(ctx context.Context, p inboxdb.InboxReserveParams) (int64, error)
	payloadHash(ctx context.Context, p inboxdb.InboxPayloadHashParams) (string, error)
	mark(ctx context.Context, p inboxdb.InboxMarkParams) error
}

// Pgx is the session of a pgx transaction.
func Pgx(tx pgx.Tx) Session { return Session{viaPgx{inboxdb.New(tx)}} }

// SQL is the session of a database/sql transaction.
func SQL(tx *sql.Tx) Session { return Session{viaSQL{inboxsql.New(tx)}} }

// Reserve must be the first statement of the transaction. It waits for another open transaction that reserved the same
// message: if that one rolls back, this one has the message. No look-up decides, so two tries never both run.
//
// After Reserved the session's own lock_timeout holds again. After any other verdict the transaction is to be rolled
// back.
func (s Session) Reserve(ctx context.Context, r Reservation) (Verdict, error) {
	n, err := s.q.reserve(ctx, inboxdb.InboxReserveParams{
		ConsumerName: string(r.Consumer), MessageID: r.ID.String(), MessageType: string(r.Type), PayloadHash: string(r.Hash),
		RetentionSeconds: r.Retention.Seconds(), LockWait: lockTimeout(r.LockWait),
	})
	switch {
	case waitedTooLong(err):
		return Busy, nil
	case err != nil:
		return 0, fmt.Errorf("reserve in the inbox: %w", err)
	case n == 1:
		return Reserved, nil
	}
	hash, err := s.q.payloadHash(ctx, inboxdb.InboxPayloadHashParams{ConsumerName: string(r.Consumer), MessageID: r.ID.String()})
	switch {
	case errors.Is(err, pgx.ErrNoRows), errors.Is(err, sql.ErrNoRows):
		return Vanished, nil
	case err != nil:
		return 0, fmt.Errorf("compare with the inbox: %w", err)
	case hash != string(r.Hash):
		return Mismatch, nil
	}
	return Duplicate, nil
}

// Mark writes when the side effect was done. It is the last statement before COMMIT.
func (s Session) Mark(ctx context.Context, r Reservation) error {
	if err := s.q.mark(ctx, inboxdb.InboxMarkParams{ConsumerName: string(r.Consumer), MessageID: r.ID.String()}); err != nil {
		return fmt.Errorf("mark in the inbox: %w", err)
	}
	return nil
}

// lockTimeout is the setting's text. It rounds up: "0" would mean to wait for ever.
func lockTimeout(d time.Duration) string {
	if d <= 0 {
		return ""
	}
	return strconv.FormatInt((d+time.Millisecond-1).Milliseconds(), 10) + "ms"
}

// waitedTooLong knows lock_not_available by its code, whatever the driver.
func waitedTooLong(err error) bool {
	var coded interface{ SQLState() string }
	return errors.As(err, &coded) && coded.SQLState() == "55P03"
}

type viaPgx struct{ q *inboxdb.Queries }

func (v viaPgx) reserve(ctx context.Context, p inboxdb.InboxReserveParams) (int64, error) {
	return v.q.InboxReserve(ctx, p)
}

func (v viaPgx) payloadHash(ctx context.Context, p inboxdb.InboxPayloadHashParams) (string, error) {
	return v.q.InboxPayloadHash(ctx, p)
}

func (v viaPgx) mark(ctx context.Context, p inboxdb.InboxMarkParams) error {
	return v.q.InboxMark(ctx, p)
}

type viaSQL struct{ q *inboxsql.Queries }

func (v viaSQL) reserve(ctx context.Context, p inboxdb.InboxReserveParams) (int64, error) {
	return v.q.InboxReserve(ctx, inboxsql.InboxReserveParams(p))
}

func (v viaSQL) payloadHash(ctx context.Context, p inboxdb.InboxPayloadHashParams) (string, error) {
	return v.q.InboxPayloadHash(ctx, inboxsql.InboxPayloadHashParams(p))
}

func (v viaSQL) mark(ctx context.Context, p inboxdb.InboxMarkParams) error {
	return v.q.InboxMark(ctx, inboxsql.InboxMarkParams(p))
}
