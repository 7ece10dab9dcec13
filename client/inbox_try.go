package client

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/backend-skeleton/relay/internal/inbox"
	"github.com/backend-skeleton/relay/messaging"
)

// transaction is one open transaction with the caller's side effect, of whatever driver.
type transaction struct {
	session  inbox.Session
	run      func(context.Context) error
	commit   func(context.Context) error
	rollback func(context.Context) // after a commit it does nothing
}

// handle repeats what the database ended for a reason that lies in other transactions.
func handle(ctx context.Context, c InboxConfig, m Message, begin func(context.Context) (transaction, error)) (Outcome, error) {
	if err := m.validate(); err != nil {
		return 0, refused("handle", nil, "", err)
	}
	for repeated := 0; ; repeated++ {
		outcome, err := try(ctx, c, m, begin)
		switch {
		case err == nil && outcome != 0:
			return outcome, nil
		case err == nil: // the row was pruned while we looked: the next try has the message
			if repeated >= DefaultRetrySerialization {
				return Busy, nil
			}
		case !serializationFailure(err) || repeated >= c.RetrySerialization:
			return 0, err
		}
		if ended := rest(ctx, repeated); ended != nil {
			return 0, errors.Join(err, ended)
		}
	}
}

func try(ctx context.Context, c InboxConfig, m Message, begin func(context.Context) (transaction, error)) (Outcome, error) {
	tx, err := begin(ctx)
	if err != nil {
		return 0, err
	}
	defer tx.rollback(ctx) // a panic of the side effect goes on after it
	r := inbox.Reservation{
		Consumer: c.Consumer, ID: m.ID, Type: m.Type, Hash: m.Hash, Retention: c.Retention, LockWait: lockWait(ctx, c.LockWait),
	}
	verdict, err := tx.session.Reserve(ctx, r)
	if err != nil {
		return 0, err
	}
	switch verdict {
	case inbox.Reserved:
	case inbox.Duplicate:
		return Duplicate, nil
	case inbox.Mismatch:
		return IntegrityFailure, nil
	case inbox.Busy:
		return Busy, nil
	default:
		return 0, nil
	}
	if err := tx.run(ctx); err != nil {
		return 0, err
	}
	if err := tx.session.Mark(ctx, r); err != nil {
		return 0, err
	}
	if err := tx.commit(ctx); err != nil {
		return 0, err
	}
	return First, nil
}

func (m Message) validate() error {
	if m.ID.IsZero() {
		return fmt.Errorf("%w: the message has no id", messaging.ErrValidation)
	}
	if _, err := messaging.ParseMessageType(string(m.Type)); err != nil {
		return err
	}
	_, err := messaging.ParsePayloadHash(string(m.Hash))
	return err
}

// lockWait leaves a part of the caller's time, so that the end of the wait is an outcome and not the end of the context.
func lockWait(ctx context.Context, configured time.Duration) time.Duration {
	if configured > 0 {
		return configured
	}
	deadline, bounded := ctx.Deadline()
	if !bounded {
		return 0
	}
	return max(time.Until(deadline)*9/10, time.Millisecond)
}

// serializationFailure knows serialization_failure and deadlock_detected. A commit without an answer is never repeated
// here, whatever caused it.
func serializationFailure(err error) bool {
	state := sqlState(err)
	return (state == "40001" || state == "40P01") && !errors.Is(err, ErrCommitUnknown)
}

// rest waits 0 to 10, 20, 40 … milliseconds, so that tries that collided do not collide again.
func rest(ctx context.Context, repeated int) error {
	pause := time.NewTimer(rand.N(10 * time.Millisecond << min(repeated, 6)))
	defer pause.Stop()
	select {
	case <-pause.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
