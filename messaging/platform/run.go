package platform

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/backend-skeleton/relay/internal/publish"
	"github.com/backend-skeleton/relay/messaging"
)

// farewell bounds the close of one adapter once everything is drained.
const farewell = 5 * time.Second

// Run blocks until ctx ends; then it drains and closes everything, at most within relay.drain (30 s) and a short farewell
// to each broker. A stop that was asked for is no error. It is called once.
//
// The order of the end: consumers take nothing more and begin no handler and no retry; publishes from outside handlers get
// ErrClosed; handlers end, and what they gave is published, confirmed and settled; then every publish is refused, confirms
// of what is on its way are waited for, and the connections end. A consumer that cannot begin ends Run with its error.
func (p *Platform) Run(ctx context.Context) error {
	p.mu.Lock()
	if p.state != created {
		p.mu.Unlock()
		return refused("run", messaging.ErrClosed, "", "the platform runs already, or is closed")
	}
	p.state = running
	p.mu.Unlock()
	p.log.Info("platform starts", "environment", p.c.Messaging.Environment, "version", version())
	p.around.Go(func() { p.watch.Run(p.living) })
	failed := p.startConsumers(ctx)
	if failed == nil {
		<-ctx.Done()
	}
	limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), p.c.Relay.Drain.Std())
	defer cancel()
	err := errors.Join(failed, p.Close(limited))
	p.log.Info("platform ended")
	return err
}

// Close drains and closes in the order that Run describes. Only a program that never calls Run needs it. What is not
// confirmed when ctx ends is ambiguous.
func (p *Platform) Close(ctx context.Context) error {
	p.mu.Lock()
	if p.state >= draining {
		p.mu.Unlock()
		return nil
	}
	p.state = draining
	var publishing []*publish.Broker
	var all []*broker
	for _, b := range p.brokers {
		all = append(all, b)
		if b.publishing != nil {
			publishing = append(publishing, b.publishing)
		}
	}
	p.mu.Unlock()

	for _, b := range publishing {
		b.Drain()
	}
	errs := p.stopConsumers(ctx)
	for _, b := range publishing {
		if err := b.Close(ctx); err != nil {
			errs = append(errs, fmt.Errorf("close the publisher of broker %s: %w", b.Name(), err))
		}
	}
	for _, b := range all {
		errs = append(errs, b.close(ctx))
	}
	p.die()
	p.around.Wait()
	p.mu.Lock()
	p.state = closed
	p.mu.Unlock()
	return errors.Join(errs...)
}

// close ends the adapters of a broker.
func (b *broker) close(ctx context.Context) error {
	var errs []error
	for _, a := range []closer{b.consumer, b.producer} {
		if a == nil {
			continue
		}
		limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), farewell)
		if err := a.Close(limited); err != nil {
			errs = append(errs, fmt.Errorf("close broker %s: %w", b.name, err))
		}
		cancel()
	}
	return errors.Join(errs...)
}

type closer interface {
	Close(ctx context.Context) error
}

func closeAll[C closer](ctx context.Context, cs []C) error {
	var errs []error
	for _, c := range cs {
		errs = append(errs, c.Close(ctx))
	}
	return errors.Join(errs...)
}
