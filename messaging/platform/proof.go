package platform

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/backend-skeleton/relay/messaging"
	"github.com/backend-skeleton/relay/messaging/transport"
)

const (
	// askTimeout bounds one question to a broker.
	askTimeout = 5 * time.Second
	// askAgain is how often the proof of a running publisher is renewed.
	askAgain = 5 * time.Minute
	// askWeak is how soon a destination is asked again that was confirmed below its level.
	askWeak = 10 * time.Second

	askFirstPause = 500 * time.Millisecond
	askLastPause  = 10 * time.Second
)

// proof is what a broker said that a destination can do. The last answer stays while the broker cannot be asked.
type proof struct {
	adapter  transport.Adapter
	endpoint transport.Endpoint

	mu    sync.Mutex // guards what follows
	able  messaging.Capabilities
	known bool
}

// get is the last answer.
func (f *proof) get() (messaging.Capabilities, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.able, f.known
}

// ask asks once.
func (f *proof) ask(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	able, err := f.adapter.Capabilities(ctx, f.endpoint)
	if err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.able, f.known = able, true
	return nil
}

// prove asks until it is answered, where staging and production demand it; elsewhere once. Without an answer the error
// says why, or is nil where the start goes on without it.
func (p *Platform) prove(f *proof, broker string) error {
	guarded := p.c.Messaging.Environment.Guarded()
	for pause := askFirstPause; ; pause = min(2*pause, askLastPause) {
		err := f.ask(p.starting)
		switch {
		case err == nil:
			return nil
		case p.starting.Err() != nil:
			return refused("start", messaging.ErrBrokerUnavailable, f.endpoint.Name, "the start ended before the broker answered: %w", context.Cause(p.starting))
		case errors.Is(err, messaging.ErrTopology) && guarded:
			return refused("start", messaging.ErrTopology, f.endpoint.Name, "the destination does not exist on the broker")
		case !guarded:
			p.log.Warn("not proved at start", "destination", f.endpoint.Name, "broker", broker)
			return nil
		}
		p.log.Warn("waiting for the broker: it must prove what the profile demands", "destination", f.endpoint.Name, "broker", broker)
		select {
		case <-p.starting.Done():
		case <-time.After(pause):
		}
	}
}

// renew asks again every few minutes, and soon after something was confirmed below the level, until the platform ends.
// A proof lifts the stop of such a destination.
func (p *Platform) renew(t target) {
	for last := time.Now(); ; {
		select {
		case <-p.living.Done():
			return
		case <-time.After(askWeak):
		}
		weak := t.d.Weak()
		if !weak && time.Since(last) < askAgain {
			continue
		}
		last = time.Now()
		if err := t.proof.ask(p.living); err != nil {
			continue // the last answer stays
		}
		able, _ := t.proof.get()
		switch wanted := p.c.CheckPublishing(string(t.d.Name), able); {
		case len(wanted) > 0:
			p.log.Error("the broker proves less than the profile demands", "destination", t.d.Name, "path", wanted[0].Path)
		case weak:
			t.d.Proved()
		}
	}
}
