package platform

import (
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
	return observe.New(observe.Config{Logger: p.log, Destinations: brokerOf, Version: version()})
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
