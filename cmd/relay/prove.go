package main

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/backend-skeleton/relay/internal/config"
	"github.com/backend-skeleton/relay/messaging"
	"github.com/backend-skeleton/relay/messaging/transport"
)

// Pauses between two questions to a broker that cannot be asked yet.
const (
	proofFirstPause = 500 * time.Millisecond
	proofLastPause  = 10 * time.Second
)

// proof asks, before anything is published, whether the brokers can prove the confirmation that the file demands. A
// weaker one is refused now instead of at the first message.
type proof struct {
	c   *config.Config
	bs  brokers
	log *slog.Logger
}

// run ends with nil, or with Refused if a destination cannot prove enough. A broker that cannot be asked is waited for
// in staging and production, and said so; elsewhere the relay starts without the proof. A destination that does not
// exist is no reason to hold up the others: its breaker opens.
func (p proof) run(ctx context.Context) error {
	var mu sync.Mutex // guards found
	var found []config.Finding
	var wait sync.WaitGroup
	for _, name := range p.bs.names() {
		wait.Go(func() {
			weak := p.broker(ctx, name)
			mu.Lock()
			defer mu.Unlock()
			found = append(found, weak...)
		})
	}
	wait.Wait()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return p.c.Refusal(found)
}

// broker asks for the destinations of one broker and gives what their profiles ask too much for, with its path.
func (p proof) broker(ctx context.Context, name string) (found []config.Finding) {
	endpoints, err := served(p.c, name)
	if err != nil {
		return []config.Finding{{Path: "messaging.brokers." + name, Message: err.Error()}}
	}
	for _, e := range endpoints {
		if e.Producer["confirmation"] != messaging.LevelReplicationOrPersistenceAck {
			continue
		}
		if able, known := p.ask(ctx, name, e); known {
			found = append(found, p.c.CheckPublishing(string(e.Name), able)...)
		}
	}
	return found
}

// ask repeats the question until it is answered; known is false where the relay starts without the answer.
func (p proof) ask(ctx context.Context, broker string, e transport.Endpoint) (able messaging.Capabilities, known bool) {
	guarded := p.c.Messaging.Environment == config.Staging || p.c.Messaging.Environment == config.Production
	for pause := proofFirstPause; ; pause = min(2*pause, proofLastPause) {
		able, err := p.bs[broker].Capabilities(ctx, e)
		switch {
		case err == nil:
			return able, true
		case ctx.Err() != nil:
			return able, false
		case errors.Is(err, messaging.ErrTopology):
			p.log.Error("the destination does not exist on the broker", "destination", e.Name, "broker", broker)
			return able, false
		case !guarded:
			p.log.Warn("not proved at start", "destination", e.Name, "broker", broker, "reason", brokerTrouble(err))
			return able, false
		}
		p.log.Warn("waiting for the broker: it must prove its confirmations before the relay starts",
			"destination", e.Name, "broker", broker, "reason", brokerTrouble(err))
		select {
		case <-ctx.Done():
			return able, false
		case <-time.After(pause):
		}
	}
}
