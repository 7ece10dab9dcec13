package platform

import (
	"strings"

	"github.com/backend-skeleton/relay/internal/brokers"
	"github.com/backend-skeleton/relay/internal/config"
	"github.com/backend-skeleton/relay/internal/publish"
	"github.com/backend-skeleton/relay/messaging"
	"github.com/backend-skeleton/relay/messaging/transport"
)

// NewPublisher makes a publisher of one type and version at one destination. Codec, catalogue and what the broker can do
// are checked here: an [messaging.ErrConfiguration] names what is missing, a [*ConfigError] the path of a profile that
// asks the broker for too much.
func NewPublisher[T any](p *Platform, d messaging.Destination[T]) (messaging.Publisher[T], error) {
	to, err := p.destination(d.Name)
	if err != nil {
		return nil, err
	}
	return publish.New(to, d)
}

// NewBatchPublisher makes a batch publisher; it needs the grant BATCH_PUBLISH, else it is an
// [messaging.ErrCapabilityUnavailable].
func NewBatchPublisher[T any](p *Platform, d messaging.Destination[T]) (messaging.BatchPublisher[T], error) {
	to, err := p.destination(d.Name)
	if err != nil {
		return nil, err
	}
	return publish.NewBatch(to, d)
}

// NewDelayedPublisher makes a publisher of delayed messages; it needs the grant DELAYED_PUBLISH and a broker that
// delays, else it is an [messaging.ErrCapabilityUnavailable]. The outbox schedules for every broker.
func NewDelayedPublisher[T any](p *Platform, d messaging.Destination[T]) (messaging.DelayedPublisher[T], error) {
	to, err := p.destination(d.Name)
	if err != nil {
		return nil, err
	}
	return publish.NewDelayed(to, d)
}

// NewRequester makes a requester, whose replies are of the type and version of answer; it needs the grant REQUEST_REPLY
// and a broker with reply queues, else it is an [messaging.ErrCapabilityUnavailable]. Its reply queue belongs to this
// process and ends with it.
func NewRequester[Q, R any](p *Platform, d messaging.Destination[Q], answer messaging.Destination[R]) (messaging.Requester[Q, R], error) {
	to, err := p.destination(d.Name)
	if err != nil {
		return nil, err
	}
	if !to.Granted(publish.GrantRequest) {
		return nil, refused("new requester", messaging.ErrCapabilityUnavailable, d.Name, "it needs the grant %s", publish.GrantRequest)
	}
	replies, err := p.repliesOf(to.Broker.Name(), d.Name)
	if err != nil {
		return nil, err
	}
	return publish.NewRequester(to, d, answer, replies)
}

// destination gives a destination of the file to publish to, proved.
func (p *Platform) destination(name messaging.DestinationName) (*publish.Destination, error) {
	p.mu.Lock()
	to, err := p.plain(name)
	p.mu.Unlock()
	if err != nil || to.proved {
		return to.d, err
	}
	if err := p.prove(to.proof, to.d.Broker.Name()); err != nil {
		return nil, err
	}
	if able, known := to.proof.get(); known {
		if err := p.c.Refusal(p.c.CheckPublishing(string(name), able)); err != nil {
			return nil, configError(err)
		}
	}
	return p.keep(name, to)
}

// target is a destination on its way to be proved.
type target struct {
	d      *publish.Destination
	proof  *proof
	proved bool
}

// plain makes a destination without asking anybody; a known one is given as it is. The caller holds p.mu.
func (p *Platform) plain(name messaging.DestinationName) (target, error) {
	const op = "new publisher"
	if p.state >= draining {
		return target{}, refused(op, messaging.ErrClosed, name, "%w", errClosed)
	}
	if d := p.destinations[name]; d != nil {
		return target{d: d, proved: true}, nil
	}
	if p.o.Producer == "" {
		return target{}, refused(op, messaging.ErrConfiguration, name, "Options.Producer names no service")
	}
	resolved, ok := p.c.Resolved(string(name))
	if !ok {
		return target{}, refused(op, messaging.ErrConfiguration, name, "messaging.destinations does not have it; known are %s", strings.Join(p.c.Registered(), ", "))
	}
	b := p.broker(resolved.Broker)
	publishing, err := p.publisher(b)
	if err != nil {
		return target{}, err
	}
	endpoint, err := brokers.Endpoint(resolved)
	if err != nil {
		return target{}, refused(op, messaging.ErrConfiguration, name, "%w", err)
	}
	f := &proof{adapter: b.producer, endpoint: endpoint}
	level, _ := messaging.ParseConfirmationLevel(string(resolved.Confirmation)) // Endpoint has read the same word
	profile, _ := p.c.Profile(name)
	entry := p.c.Messaging.Destinations[string(name)]
	return target{proof: f, d: &publish.Destination{
		Name: name, Broker: publishing, Endpoint: endpoint, Timeout: resolved.Timeout, Required: level,
		Ordered:       resolved.Ordering == config.OrderingKey,
		BatchMessages: p.c.BatchMessages(), BatchBytes: p.c.BatchBytes(),
		Rules:   publish.Rules{Producer: p.o.Producer, Profile: profile, Codecs: p.codecs, Trace: p.o.Trace, Baggage: append([]string{}, p.c.Security.Baggage...)},
		Granted: func(g string) bool { return entry.Granted(config.Grant(g)) },
		Able:    f.get,
	}}, nil
}

// keep registers a proved destination; of two that were made at once the first stays.
func (p *Platform) keep(name messaging.DestinationName, t target) (*publish.Destination, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.state >= draining {
		return nil, refused("new publisher", messaging.ErrClosed, name, "%w", errClosed)
	}
	if d := p.destinations[name]; d != nil {
		return d, nil
	}
	p.destinations[name] = t.d
	p.brokers[t.d.Broker.Name()].edge.want(t.d.Endpoint)
	p.around.Go(func() { p.renew(t) })
	return t.d, nil
}

// repliesOf opens the reply queue of a broker, once.
func (p *Platform) repliesOf(name string, d messaging.DestinationName) (*publish.Replies, error) {
	p.asking.Lock() // a broker is asked: nobody else waits for it
	defer p.asking.Unlock()
	if r := p.replies[name]; r != nil {
		return r, nil
	}
	p.mu.Lock()
	a, err := p.adapter(p.broker(name), brokers.Consumer)
	p.mu.Unlock()
	if err != nil {
		return nil, err
	}
	replier, ok := a.(transport.Replier)
	if !ok {
		return nil, refused("new requester", messaging.ErrCapabilityUnavailable, d, "the broker %s has no reply queues", name)
	}
	r, err := publish.NewReplies(p.living, replier, func(late bool) {
		p.log.Warn("a reply was not awaited", "broker", name, "late", late)
	})
	if err != nil {
		return nil, err
	}
	p.replies[name] = r
	p.around.Go(r.Run)
	return r, nil
}
