package platform

import (
	"maps"
	"slices"

	"github.com/backend-skeleton/relay/messaging"
)

type readyBody struct {
	Ready        bool            `json:"ready"`
	Reasons      []string        `json:"reasons"`
	Destinations []readyPartBody `json:"destinations"`
	Consumers    []readyPartBody `json:"consumers"`
}

type readyPartBody struct {
	Name   string `json:"name"`
	Ready  bool   `json:"ready"`
	Reason string `json:"reason"`
}

// readiness tells whether this process can do its work. A destination whose proof was lost is told, and is no reason to
// take the process out: another one would not fare better.
func (p *Platform) readiness() readyBody {
	p.mu.Lock()
	state, destinations := p.state, maps.Clone(p.destinations)
	p.mu.Unlock()
	body := readyBody{Reasons: []string{}, Destinations: []readyPartBody{}, Consumers: []readyPartBody{}}
	for _, name := range slices.Sorted(maps.Keys(destinations)) {
		part := readyPartBody{Name: string(name), Ready: !destinations[name].Weak()}
		if !part.Ready {
			part.Reason = messaging.CodeProofLost
		}
		body.Destinations = append(body.Destinations, part)
	}
	for _, c := range p.allConsumers() {
		s := c.Status()
		part := readyPartBody{Name: string(c.Name()), Ready: s.Ready()}
		if !part.Ready {
			part.Reason = s.Reason()
		}
		body.Consumers = append(body.Consumers, part)
	}
	if state >= draining {
		body.Reasons = append(body.Reasons, "the service is stopping")
	}
	body.Ready = len(body.Reasons) == 0
	return body
}

type summaryBody struct {
	Version     string            `json:"version"`
	Environment string            `json:"environment"`
	State       string            `json:"state"` // CREATED, RUNNING, DRAINING, CLOSED
	Ready       bool              `json:"ready"`
	Reasons     []string          `json:"reasons"`
	Brokers     []brokerBody      `json:"brokers"`
	Links       map[string]string `json:"links"`
}

type brokerBody struct {
	Name     string `json:"name"`
	Kind     string `json:"kind"`
	InFlight int    `json:"inFlight"`
}

func (p *Platform) summary() summaryBody {
	ready := p.readiness()
	p.mu.Lock()
	defer p.mu.Unlock()
	body := summaryBody{
		Version: version(), Environment: string(p.c.Messaging.Environment), Ready: ready.Ready, Reasons: ready.Reasons,
		State:   [...]string{created: "CREATED", running: "RUNNING", draining: "DRAINING", closed: "CLOSED"}[p.state],
		Brokers: []brokerBody{},
		Links:   map[string]string{"health": "/healthz", "readiness": "/readyz", "metrics": "/metrics", "info": "/info"},
	}
	for _, name := range slices.Sorted(maps.Keys(p.brokers)) {
		b := brokerBody{Name: name, Kind: string(p.c.Messaging.Brokers[name].Kind)}
		if publishing := p.brokers[name].publishing; publishing != nil {
			b.InFlight = publishing.InFlight()
		}
		body.Brokers = append(body.Brokers, b)
	}
	return body
}
