package platform

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"

	"github.com/backend-skeleton/relay/internal/brokers"
	"github.com/backend-skeleton/relay/internal/config"
	"github.com/backend-skeleton/relay/internal/consume"
	"github.com/backend-skeleton/relay/internal/publish"
	"github.com/backend-skeleton/relay/messaging"
	"github.com/backend-skeleton/relay/messaging/transport"
)

// Consume makes the consumer of that name in the file; it begins with [Platform.Run], and is called before it. Everything
// is checked here: that every route has its grant and its destination, that an INBOX_TRANSACTIONAL consumer has handlers
// of [InboxBound] kind under its own name, and what the broker can do. An [messaging.ErrConfiguration] or a [*ConfigError]
// names what is missing.
//
// The controller pauses the consumer, or some of its units.
//
// [InboxBound]: https://pkg.go.dev/github.com/backend-skeleton/relay/messaging#InboxBound
func Consume(p *Platform, name messaging.ConsumerName, routes ...Route) (messaging.PauseController, error) {
	settings, ok := p.c.Consuming(string(name))
	if !ok {
		return nil, refused("consume", messaging.ErrConfiguration, "", "messaging.consumers does not have %s", name)
	}
	c := consume.Config{Name: name, Tenants: p.tenants(settings)}
	source := messaging.DestinationName(settings.Source.Name)
	for _, route := range routes {
		if route.make == nil {
			return nil, refused("consume", messaging.ErrConfiguration, source, "a route of %s was not made by On, OnManual, OnBatch or OnRequest", name)
		}
		r, err := route.make(p)
		if err != nil {
			return nil, err
		}
		if err := p.checkRoute(settings, r); err != nil {
			return nil, refused("consume", messaging.ErrConfiguration, source, "consumer %s: %w", name, err)
		}
		c.Routes = append(c.Routes, r)
	}
	if err := p.edges(&c, settings); err != nil {
		return nil, err
	}
	fill(&c, settings)
	profile, _ := p.c.Profile(source)
	c.Types, c.Codecs, c.Drain = profile.Types, p.codecs, p.c.Relay.Drain.Std()
	c.MaxBytes = cmp.Or(profile.MaxBytes, consume.HardMaxBytes)
	c.Handling, c.Hooks, c.Logger = publish.Handling, p.consumeHooks(name), p.log
	made, err := consume.New(c)
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.state != created:
		return nil, refused("consume", messaging.ErrClosed, source, "consumer %s is made after Run began", name)
	case p.consumers[name] != nil:
		return nil, refused("consume", messaging.ErrConfiguration, source, "consumer %s is made twice", name)
	}
	p.consumers[name] = made
	return made, nil
}

// checkRoute holds a route against the grants and the promises of its consumer.
func (p *Platform) checkRoute(s config.Consuming, r consume.Route) error {
	entry := p.c.Messaging.Consumers[s.Name]
	bound := s.SideEffect == config.InboxTransactional
	needs := func(g config.Grant) error {
		if entry.Granted(g) {
			return nil
		}
		return fmt.Errorf("the route of %s needs the grant %s", r.Type, g)
	}
	switch {
	case string(r.Destination) != s.Source.Name:
		return fmt.Errorf("the route of %s belongs to %s, the consumer reads %s", r.Type, r.Destination, s.Source.Name)
	case r.Version < 1 || r.Type == "":
		return fmt.Errorf("a route of %s has no type, or no version from 1", r.Destination)
	case r.Inbox != "" && string(r.Inbox) != s.Name:
		return fmt.Errorf("the handler of %s reserves in the inbox of %s", r.Type, r.Inbox)
	case bound && r.Inbox == "":
		return fmt.Errorf("it is INBOX_TRANSACTIONAL, and the handler of %s is not made by client.InboxHandler", r.Type)
	case r.Manual():
		return needs(config.ManualSettlement)
	case r.Batched():
		return needs(config.BatchConsume)
	case r.Answers():
		return needs(config.RequestReply)
	case r.Payload == consume.Raw:
		return needs(config.RawBytes)
	case r.Payload == consume.Tombstone:
		return needs(config.KafkaTombstone)
	}
	return nil
}

// edges gives a consumer its places: what it reads, where it hands over, and what the broker can do.
func (p *Platform) edges(c *consume.Config, s config.Consuming) error {
	endpoint, err := brokers.ConsumerEndpoint(s.Name, p.c.Messaging.Consumers[s.Name], s.Source)
	if err != nil {
		return refused("consume", messaging.ErrConfiguration, messaging.DestinationName(s.Source.Name), "%w", err)
	}
	c.Endpoint, c.Group = endpoint, s.Group
	policy := policyOf(s.Retry)
	for n, wait := range consume.Stages(policy) {
		c.Stages = append(c.Stages, stage(endpoint, s, n+1, wait.Milliseconds()))
	}
	c.StagesReturn = s.Source.BrokerKind == config.RabbitMQ
	if c.DeadLetters, err = p.place(s.DLQ); err != nil {
		return err
	}
	c.Parking = map[messaging.Parking]transport.Endpoint{}
	for at, name := range map[messaging.Parking]string{
		messaging.ParkingSchema: s.Parking.Schema, messaging.ParkingSecurity: s.Parking.Security, messaging.ParkingManualReview: s.Parking.ManualReview,
	} {
		e, err := p.place(name)
		if err != nil {
			return err
		}
		if e != nil {
			c.Parking[at] = *e
		}
	}
	p.mu.Lock()
	b := p.broker(s.Source.Broker)
	c.Adapter, err = p.adapter(b, brokers.Consumer)
	if err == nil && (c.DeadLetters != nil || len(c.Parking)+len(c.Stages) > 0) {
		if _, err = p.publisher(b); err == nil {
			c.Publisher = b.edge
			p.wantAll(b.edge, c)
		}
	}
	p.mu.Unlock()
	if err != nil {
		return err
	}
	proof := &proof{adapter: c.Adapter, endpoint: endpoint}
	if err := p.prove(proof, s.Source.Broker); err != nil {
		return err
	}
	able, known := proof.get()
	if known {
		if err := p.c.Refusal(p.c.CheckConsuming(s.Name, able)); err != nil {
			return configError(err)
		}
	}
	c.Caps = able
	return nil
}

func (p *Platform) wantAll(e *edge, c *consume.Config) {
	for _, to := range c.Stages {
		e.want(to)
	}
	if c.DeadLetters != nil {
		e.want(*c.DeadLetters)
	}
	for _, to := range c.Parking {
		e.want(to)
	}
}

// place is a destination of the file that messages are handed over to; nil for none.
func (p *Platform) place(name string) (*transport.Endpoint, error) {
	if name == "" {
		return nil, nil //nolint:nilnil // none is an answer
	}
	resolved, ok := p.c.Resolved(name)
	if !ok {
		return nil, refused("consume", messaging.ErrConfiguration, messaging.DestinationName(name), "messaging.destinations does not have it")
	}
	e, err := brokers.Endpoint(resolved)
	if err != nil {
		return nil, refused("consume", messaging.ErrConfiguration, messaging.DestinationName(name), "%w", err)
	}
	return &e, nil
}

// stage is a retry stage: a topic or queue of this consumer alone, on the broker of what it reads.
func stage(source transport.Endpoint, s config.Consuming, n int, milliseconds int64) transport.Endpoint {
	e := source
	e.Name = messaging.DestinationName(fmt.Sprintf("%s.retry.%d", s.Source.Name, n))
	if topic := source.Physical["topic"]; topic != "" {
		e.Physical = map[string]string{"topic": topic + "." + s.Name + ".retry." + strconv.Itoa(n)}
	} else {
		queue := s.Queue + ".retry." + strconv.FormatInt(milliseconds, 10)
		e.Physical = map[string]string{"exchange": "", "routing-key": queue, "queue": queue}
	}
	return e
}

// fill takes over what the file says.
func fill(c *consume.Config, s config.Consuming) {
	c.Delivery, c.Ordering = messaging.AtLeastOnce, messaging.OrderingNone
	if s.Delivery == config.AtMostOnce {
		c.Delivery = messaging.AtMostOnce
	}
	if o, err := messaging.ParseOrdering(string(s.Ordering)); err == nil {
		c.Ordering = o
	}
	c.Concurrency, c.Prefetch, c.HandlerTimeout = s.Concurrency, s.Prefetch, s.HandlerTimeout
	if s.Source.Physical["topic"] != "" { // a queue has no partitions: its bound is the consumer's own
		c.PerUnit = s.PerPartition
	}
	c.Policy, c.Block = policyOf(s.Retry), s.OnExhausted == config.BlockExhausted
	c.ReviewDoubtful, c.ParkUnhandled, c.Handovers = s.ReviewDoubtful, s.Unhandled == config.ParkUnhandled, s.RetryPublishes
}

func policyOf(r config.RetryPlan) messaging.RetryPolicy {
	p := messaging.RetryPolicy{
		MaxAttempts: r.MaxAttempts, InitialDelay: r.Initial, MaxDelay: r.Max, Multiplier: r.Multiplier,
		Retryable: categories(r.Retryable), NonRetryable: categories(r.NonRetryable),
	}
	p.Mode, _ = messaging.ParseMode(string(r.Mode)) // the reader knows the same words
	p.Impact, _ = messaging.ParseImpact(string(r.Impact))
	if r.Jitter == config.JitterFull {
		p.Jitter = 1
	}
	return p
}

func categories(words []config.Category) []messaging.Category {
	out := make([]messaging.Category, 0, len(words))
	for _, w := range words {
		if c, err := messaging.ParseCategory(string(w)); err == nil {
			out = append(out, c)
		}
	}
	return out
}

// tenants is the allow-list that deliveries are held against.
func (p *Platform) tenants(s config.Consuming) *messaging.Tenants {
	profile, _ := p.c.Profile(messaging.DestinationName(s.Source.Name))
	return profile.Tenants
}

// startConsumers begins to consume; what cannot is told, and what has begun is stopped by Close.
func (p *Platform) startConsumers(ctx context.Context) error {
	for _, c := range p.allConsumers() {
		if err := c.Start(ctx); err != nil {
			return err
		}
	}
	return nil
}

// stopConsumers drains all of them at once.
func (p *Platform) stopConsumers(ctx context.Context) (errs []error) {
	var wg sync.WaitGroup
	var mu sync.Mutex // guards errs
	for _, c := range p.allConsumers() {
		wg.Go(func() {
			if err := c.Stop(ctx); err != nil {
				mu.Lock()
				defer mu.Unlock()
				errs = append(errs, err)
			}
		})
	}
	wg.Wait()
	return errs
}

func (p *Platform) allConsumers() []*consume.Consumer {
	p.mu.Lock()
	defer p.mu.Unlock()
	names := make([]messaging.ConsumerName, 0, len(p.consumers))
	for name := range p.consumers {
		names = append(names, name)
	}
	slices.Sort(names)
	out := make([]*consume.Consumer, 0, len(names))
	for _, name := range names {
		out = append(out, p.consumers[name])
	}
	return out
}
