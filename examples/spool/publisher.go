package spool

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/backend-skeleton/relay/messaging"
	"github.com/backend-skeleton/relay/messaging/transport"
)

// MaxBytes is the largest payload that the spool takes.
const MaxBytes = 2 << 20

type publisher struct {
	adapter *Adapter
	closed  atomic.Bool
}

// Publish writes one file after the other. A disk answers at once, so done is called on the caller's stack.
func (p *publisher) Publish(ctx context.Context, to transport.Endpoint, ms []transport.Message, done func(int, messaging.PublishResult)) {
	for i, m := range ms {
		began := time.Now()
		r := p.one(ctx, to, m)
		r.Elapsed = time.Since(began)
		done(i, r)
	}
}

// one says what the disk proved, and nothing more: a message is rejected where it certainly has no file, and in doubt where
// it may have one.
func (p *publisher) one(ctx context.Context, to transport.Endpoint, m transport.Message) messaging.PublishResult {
	switch {
	case p.closed.Load():
		return rejected(messaging.CategoryTransientInfrastructure, messaging.CodeClosed, "the publisher is closed")
	case ctx.Err() != nil:
		return rejected(messaging.CategoryTransientInfrastructure, messaging.CodeNotSent, "the time was over before anything was written")
	case p.adapter.readOnly:
		return rejected(messaging.CategoryAuthorization, messaging.CodeNotAuthorized, "this client may not write")
	case len(m.Value) > MaxBytes:
		return rejected(messaging.CategoryValidation, messaging.CodeTooLarge, "the payload is over the spool's limit")
	}
	name := queueOf(to)
	number, left, err := p.adapter.spool.store(name, m)
	switch {
	case err == nil:
		return messaging.PublishResult{
			Completion: messaging.Confirmed, Routing: messaging.RoutingRouted, Attempts: 1,
			Evidence: messaging.Evidence{
				Transmission: messaging.Transmitted, BrokerAccepted: true, Level: messaging.LevelReplicationOrPersistenceAck,
			},
			Position: &messaging.BrokerPosition{Broker: "spool", Text: position(name, number)},
		}
	case errors.Is(err, errNoPlace):
		return rejected(messaging.CategoryConfiguration, messaging.CodeUnroutable, "there is no such place")
	case left:
		return messaging.PublishResult{
			Completion: messaging.Ambiguous, Routing: messaging.RoutingUnknown, Attempts: 1,
			Evidence: messaging.Evidence{Transmission: messaging.MayHaveBeenTransmitted, Level: messaging.LevelNone},
			Failure:  messaging.NewFailure(messaging.CategoryAmbiguous, messaging.CodeUnknownOutcome, "the disk failed after the write"),
		}
	}
	// The text of the system's error is left out: it holds a path.
	return rejected(messaging.CategoryTransientInfrastructure, messaging.CodeNotSent, "the disk did not take the message")
}

func rejected(category messaging.Category, code, text string) messaging.PublishResult {
	routing := messaging.RoutingUnknown
	if code == messaging.CodeUnroutable {
		routing = messaging.RoutingUnroutable
	}
	return messaging.PublishResult{
		Completion: messaging.Rejected, Routing: routing,
		Evidence: messaging.Evidence{Transmission: messaging.NotTransmitted, Level: messaging.LevelNone},
		Failure:  messaging.NewFailure(category, code, text),
	}
}

// Close has nothing to wait for.
func (p *publisher) Close(context.Context) error {
	p.closed.Store(true)
	return nil
}
