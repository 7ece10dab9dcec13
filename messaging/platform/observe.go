package platform

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/backend-skeleton/relay/internal/consume"
	"github.com/backend-skeleton/relay/internal/observe"
	"github.com/backend-skeleton/relay/internal/publish"
	"github.com/backend-skeleton/relay/messaging"
)

// PublishEvent is one verdict on a direct publish.
type PublishEvent struct {
	Destination messaging.DestinationName
	Broker      string
	// Stage is how far the message got before its end: CREATED, VALIDATED, ENCODED, QUEUED_LOCALLY, TRANSMITTING or
	// BROKER_ACCEPTED.
	Stage  string
	Result messaging.PublishResult
}

// AuditEvent is what an auditor asks for, such as SCHEMA_VALIDATION_BYPASSED for a message of raw bytes.
type AuditEvent struct {
	Destination messaging.DestinationName
	Action      string
}

// PublishObserver is told every verdict. It must not block.
type PublishObserver interface{ ObservePublish(PublishEvent) }

// LateObserver is told every answer that came after its verdict. It must not block.
type LateObserver interface{ ObserveLate(PublishEvent) }

// AuditObserver is told audit events. It must not block.
type AuditObserver interface{ ObserveAudit(AuditEvent) }

func (p *Platform) newObserver() (*observe.Observer, error) {
	brokerOf := map[messaging.DestinationName]string{}
	for name, d := range p.c.Messaging.Destinations {
		brokerOf[messaging.DestinationName(name)] = d.Broker
	}
	o, err := observe.New(observe.Config{Logger: p.log, Destinations: brokerOf, Version: version()})
	if err != nil {
		return nil, err
	}
	return o, o.CollectConsumers(p.consumerStates)
}

// publishHooks tell the metrics, the log and the service's own hooks.
func (p *Platform) publishHooks() publish.Hooks {
	event := func(e publish.Event) PublishEvent {
		return PublishEvent{Destination: e.Destination, Broker: e.Broker, Stage: e.Stage.String(), Result: e.Result}
	}
	return publish.Hooks{
		Done: func(e publish.Event) {
			if e.Stage >= publish.Transmitting { // what never left is no attempt at the broker
				p.watch.Published(e.Destination, e.Broker, e.Result)
			}
			p.watch.Direct(e.Destination, e.Stage.String(), e.Result)
			if e.Result.Completion == messaging.Confirmed && e.Result.Evidence.Level < e.Required {
				p.watch.Weak(e.Destination, 1)
			}
			for _, o := range p.o.Observe {
				if o, ok := o.(PublishObserver); ok {
					o.ObservePublish(event(e))
				}
			}
		},
		Late: func(e publish.Event) {
			p.watch.LateAnswer(e.Broker, e.Result.Completion)
			for _, o := range p.o.Observe {
				if o, ok := o.(LateObserver); ok {
					o.ObserveLate(event(e))
				}
			}
		},
		InFlight: p.watch.InFlight,
		Misstep: func(to messaging.DestinationName, from, next publish.State) {
			p.log.Error("a publish tried a step that does not exist", "destination", to, "from", from.String(), "to", next.String())
		},
		Audit: func(to messaging.DestinationName, what string) {
			p.log.Info("audit", "action", what, "destination", to)
			for _, o := range p.o.Observe {
				if o, ok := o.(AuditObserver); ok {
					o.ObserveAudit(AuditEvent{Destination: to, Action: what})
				}
			}
		},
	}
}

// ConsumeEvent is what became of one delivery.
type ConsumeEvent struct {
	Consumer messaging.ConsumerName
	Type     messaging.MessageType
	// Outcome is SUCCESS, DEAD_LETTERED, PARKED, MOVED, RETURNED, REJECTED, IGNORED, SKIPPED or UNSETTLED.
	Outcome string
	// OrderBroken says that later messages of its key go on without it.
	OrderBroken bool
}

// ConsumeObserver is told what became of every delivery. It must not block.
type ConsumeObserver interface{ ObserveConsume(ConsumeEvent) }

// consumeHooks tell the metrics, the log and the service's own hooks.
func (p *Platform) consumeHooks(name messaging.ConsumerName) consume.Hooks {
	return consume.Hooks{
		Delivered: func(redelivered bool) { p.watch.Delivered(name, redelivered) },
		Handled: func(_ messaging.MessageType, outcome string, took time.Duration) {
			p.watch.Handled(name, outcome, took)
		},
		Retried: func(m messaging.Mode, f messaging.Failure) { p.watch.Retried(name, m, f) },
		HandedOver: func(to messaging.DestinationName, outcome string, c messaging.Completion, f messaging.Failure) {
			p.watch.HandedOver(name, to, outcome, c, f)
		},
		Settled: func(verb string, r messaging.SettlementResult, took time.Duration) {
			p.watch.Settled(name, verb, r, took)
		},
		Ended: func(t messaging.MessageType, outcome string, broken bool) {
			p.watch.Consumed(name, t, outcome)
			for _, o := range p.o.Observe {
				if o, ok := o.(ConsumeObserver); ok {
					o.ObserveConsume(ConsumeEvent{Consumer: name, Type: t, Outcome: outcome, OrderBroken: broken})
				}
			}
		},
		Paused: func(reason string, paused bool) { p.watch.Paused(name, reason, paused) },
		Panicked: func(t messaging.MessageType, value any, stack []byte) { // the value may quote the payload
			p.log.Error("a handler panicked", "consumer", name, "type", t, "value", fmt.Sprintf("%T", value), "stack", string(stack))
		},
		Misstep: func(from, next consume.State) {
			p.log.Error("a delivery took a step that does not exist", "consumer", name, "from", from.String(), "to", next.String())
		},
	}
}

// consumerStates are what the consumers are doing, for the metrics.
func (p *Platform) consumerStates() (out []observe.ConsumerState) {
	for _, c := range p.allConsumers() {
		s := c.Status()
		out = append(out, observe.ConsumerState{Consumer: c.Name(), Running: s.Running, Stuck: s.Stuck, Paused: slices.Sorted(maps.Keys(s.Paused))})
	}
	return out
}
