package publish

import (
	"context"
	"fmt"
	"time"

	"github.com/backend-skeleton/relay/messaging"
)

// maxDelay is the longest delay of a direct publish. What is due later belongs into the outbox, which can list and cancel.
const maxDelay = 7 * 24 * time.Hour

// delayed is a [messaging.DelayedPublisher].
type delayed[T any] struct{ p *publisher[T] }

// NewDelayed makes a publisher of delayed messages; it needs the grant DELAYED_PUBLISH and the capability
// DelayedDelivery. Where there is none, the outbox schedules instead.
func NewDelayed[T any](d *Destination, to messaging.Destination[T]) (messaging.DelayedPublisher[T], error) {
	p, err := newPublisher(d, to)
	switch {
	case err != nil:
		return nil, err
	case !d.granted(GrantDelayed):
		return nil, ungranted(to.Name, GrantDelayed)
	case d.unasked():
		return nil, &messaging.Error{
			Op: "new publisher", Kind: messaging.ErrBrokerUnavailable, Destination: to.Name,
			Cause: cause("the broker could not be asked whether it delays"),
		}
	case !d.able().DelayedDelivery:
		return nil, &messaging.Error{
			Op: "new publisher", Kind: messaging.ErrCapabilityUnavailable, Destination: to.Name,
			Cause: cause("the broker does not delay; schedule through the outbox"),
		}
	}
	return &delayed[T]{p: p}, nil
}

// PublishAfter publishes a message that is delivered after the delay, at the earliest.
func (b *delayed[T]) PublishAfter(ctx context.Context, e messaging.Envelope[T], d time.Duration, o *messaging.PublishOptions) (messaging.PublishResult, error) {
	if d < 0 || d > maxDelay {
		s := &shot[T]{}
		s.d, s.began = b.p.d, time.Now()
		s.refuse(invalid(fmt.Sprintf("the delay is not within 0 and %v", maxDelay)))
		err := s.finish(ctx)
		return s.result, err
	}
	return b.p.publish(ctx, e, o, request{delay: d})
}
