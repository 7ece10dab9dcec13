package consume

import (
	"context"

	"github.com/backend-skeleton/relay/messaging"
	"github.com/backend-skeleton/relay/messaging/transport"
)

// sink is the consumer as its adapter sees it.
type sink Consumer

var _ transport.Sink = (*sink)(nil)

// Assigned takes units.
func (s *sink) Assigned(us []transport.Unit) {
	k := (*Consumer)(s)
	k.box.post(func() {
		for _, u := range us {
			k.assign(u)
		}
	})
}

// Deliver takes a delivery.
func (s *sink) Deliver(d transport.Delivery) {
	k := (*Consumer)(s)
	k.box.put(event{kind: delivered, item: &item{d: d}})
}

// Revoked lets the handlers of the units end and settles what they gave.
func (s *sink) Revoked(ctx context.Context, us []transport.Unit) {
	k := (*Consumer)(s)
	idle := make(chan struct{})
	k.box.post(func() { k.revoke(us, idle) })
	select {
	case <-idle:
	case <-ctx.Done():
	case <-k.quit:
	}
	k.lose(us, messaging.ErrUnitLost)
}

// Lost forgets the units.
func (s *sink) Lost(us []transport.Unit) {
	(*Consumer)(s).lose(us, messaging.ErrUnitLost)
}

// lose returns when nothing of the units will be settled any more.
func (k *Consumer) lose(us []transport.Unit, why error) {
	lost := make(chan struct{})
	k.box.post(func() {
		defer close(lost)
		for _, id := range us {
			if u := k.units[id]; u != nil {
				k.forget(u, why)
			}
		}
	})
	select {
	case <-lost:
	case <-k.quit:
	}
}
