package rabbitmq

import (
	"slices"
	"strings"
	"sync"

	amqp "github.com/rabbitmq/amqp091-go"
)

// proof is what was seen of the queues behind an endpoint.
type proof struct {
	// durable: at least one queue is bound for the endpoint, and every one that may
	// take its messages is a quorum queue.
	durable bool
	// prefix: it is exactly one, under a fixed routing key, and it refuses nothing
	// when it is full.
	prefix bool
}

// proofKey is what a proof depends on.
type proofKey struct {
	exchange, routingKey string
	perMessage           bool
}

// proofs keeps the last proof of every endpoint that was ever seen.
type proofs struct {
	mu   sync.RWMutex
	seen map[proofKey]proof
}

func (p *proofs) last(k proofKey) (proof, bool) {
	p.mu.RLock()
	defer p.mu.RUnlock()
	seen, ok := p.seen[k]
	return seen, ok
}

func (p *proofs) keep(k proofKey, seen proof) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.seen == nil {
		p.seen = map[proofKey]proof{}
	}
	p.seen[k] = seen
}

// disprove takes back the promise of a prefix until the next look: the broker refused a message in the middle of others.
func (p *proofs) disprove(k proofKey) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if seen, ok := p.seen[k]; ok && seen.prefix {
		seen.prefix = false
		p.seen[k] = seen
	}
}

// exchangeView, bindingView and queueView are what the management API says, as
// far as it is needed.
type exchangeView struct {
	Type      string         `json:"type"`
	Policy    string         `json:"policy"`
	Arguments map[string]any `json:"arguments"`
}

type bindingView struct {
	Destination     string `json:"destination"`
	DestinationType string `json:"destination_type"`
	RoutingKey      string `json:"routing_key"`
}

type queueView struct {
	Type      string         `json:"type"`
	Arguments map[string]any `json:"arguments"`
	Policy    map[string]any `json:"effective_policy_definition"`
}

// mayHaveAlternate tells whether the exchange may pass on what no binding
// matches. Of a policy only the name is shown here.
func (e *exchangeView) mayHaveAlternate() bool {
	_, own := e.Arguments["alternate-exchange"]
	return own || e.Policy != ""
}

// rejectsWhenFull tells whether the queue answers with a nack when it is full.
func (q *queueView) rejectsWhenFull() bool {
	for _, overflow := range []any{q.Arguments["x-overflow"], q.Policy["overflow"]} {
		if text, ok := overflow.(string); ok && strings.HasPrefix(text, "reject-publish") {
			return true
		}
	}
	return false
}

// reachable gives the queues that may take a message of the endpoint. It answers
// false where that cannot be told: a binding leads into another exchange, the
// exchange is of a type that keeps messages itself, or what no binding matches
// may go to an alternate exchange.
func reachable(k proofKey, e *exchangeView, bindings []bindingView) ([]string, bool) {
	var matches func(pattern string) bool
	every := func(string) bool { return true }
	switch {
	case e.Type == amqp.ExchangeFanout:
		matches = every
	case k.perMessage, e.Type == amqp.ExchangeHeaders, e.Type == "x-consistent-hash", e.Type == "x-random":
		if e.mayHaveAlternate() {
			return nil, false
		}
		matches = every
	case e.Type == amqp.ExchangeDirect:
		matches = func(pattern string) bool { return pattern == k.routingKey }
	case e.Type == amqp.ExchangeTopic:
		matches = func(pattern string) bool { return topicMatches(pattern, k.routingKey) }
	default:
		return nil, false
	}
	if !slices.Contains(provableTypes, e.Type) {
		return nil, false
	}
	var queues []string
	for _, b := range bindings {
		if !matches(b.RoutingKey) {
			continue
		}
		if b.DestinationType != "queue" {
			return nil, false
		}
		queues = append(queues, b.Destination)
	}
	slices.Sort(queues)
	return slices.Compact(queues), true
}

// provableTypes hold no message themselves.
var provableTypes = []string{
	amqp.ExchangeDirect, amqp.ExchangeFanout, amqp.ExchangeTopic, amqp.ExchangeHeaders, "x-consistent-hash", "x-random",
}

// judge makes a proof of the reachable queues.
func judge(k proofKey, queues []queueView) proof {
	if len(queues) == 0 {
		return proof{}
	}
	p := proof{durable: true, prefix: !k.perMessage && len(queues) == 1}
	for i := range queues {
		p.durable = p.durable && queues[i].Type == "quorum"
		p.prefix = p.prefix && p.durable && !queues[i].rejectsWhenFull()
	}
	return p
}

// topicMatches follows the rules of topic exchanges: words between dots, * is one
// word, # is any number of words.
func topicMatches(pattern, key string) bool {
	return wordsMatch(strings.Split(pattern, "."), splitKey(key))
}

func splitKey(key string) []string {
	if key == "" {
		return nil
	}
	return strings.Split(key, ".")
}

func wordsMatch(pattern, key []string) bool {
	if len(pattern) == 1 && pattern[0] == "" {
		pattern = nil
	}
	for len(pattern) > 0 {
		if pattern[0] == "#" {
			for i := range len(key) + 1 {
				if wordsMatch(pattern[1:], key[i:]) {
					return true
				}
			}
			return false
		}
		if len(key) == 0 || (pattern[0] != "*" && pattern[0] != key[0]) {
			return false
		}
		pattern, key = pattern[1:], key[1:]
	}
	return len(key) == 0
}
