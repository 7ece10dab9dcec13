package rabbitmq

import (
	"context"
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"

	"github.com/backend-skeleton/relay/messaging"
	"github.com/backend-skeleton/relay/messaging/transport"
)

// Publisher publishes to the endpoints of one broker. It is made by
// [Adapter.Publisher] and safe for concurrent use.
type Publisher struct {
	adapter  *Adapter
	tokens   chan struct{} // one per message without a verdict
	seed     maphash.Seed
	rotation atomic.Uint32 // for messages without key
	suspects suspects
	closing  chan struct{} // closed by Close: no new message
	idle     signal        // a message got its verdict while closing
	running  sync.WaitGroup
	start    func(func(context.Context)) // runs a goroutine until Close
	cancel   context.CancelFunc          // ends them

	mu     sync.Mutex
	closed bool
	cut    bool // nobody waits for answers any more
	pipes  map[pipeKey][]*pipe
}

var (
	_ transport.Publisher   = (*Publisher)(nil)
	_ transport.KeyPrefixer = (*Publisher)(nil)
)

func newPublisher(a *Adapter) *Publisher {
	ctx, cancel := context.WithCancel(context.Background())
	p := &Publisher{
		adapter: a, tokens: make(chan struct{}, a.cfg.ProducerInFlight), seed: maphash.MakeSeed(),
		closing: make(chan struct{}), cancel: cancel, pipes: map[pipeKey][]*pipe{},
	}
	p.start = func(run func(context.Context)) { p.running.Go(func() { run(ctx) }) }
	return p
}

// Publish writes ms in order, messages of one key through one channel. It blocks
// while the connection is down, blocked or has too many messages without an
// answer, at most until ctx ends. A message that follows one of its own key in
// the same call is not written after that one failed.
//
// done is called when the broker answered, when the channel or connection ended,
// or when the endpoint's abandon-after (default 60 s) is over; the channel is
// then closed first. It runs on the goroutine that reads the broker's answers,
// and on the caller's for a message of which nothing was written.
func (p *Publisher) Publish(ctx context.Context, to transport.Endpoint, ms []transport.Message, done func(i int, r messaging.PublishResult)) {
	c := &call{publisher: p, done: done, began: time.Now(), keys: keysOf(ms)}
	r, err := parseRoute(to)
	for i := range ms {
		if err != nil {
			c.refuse(i, nil, messaging.NewFailure(messaging.CategoryConfiguration, messaging.CodeBrokerConfiguration, "the destination's physical settings are not valid").WithCause(err))
			continue
		}
		c.publish(ctx, r, i, &ms[i])
	}
}

// KeyPrefix tells whether, of one call's messages of one key, what is stored is a
// prefix in order: the management API showed that the endpoint's fixed routing
// key leads into exactly one quorum queue that refuses nothing when it is full. A message that
// is refused or returned all the same takes the promise back until the next look.
func (p *Publisher) KeyPrefix(to transport.Endpoint) bool {
	r, err := parseRoute(to)
	if err != nil {
		return false
	}
	seen, _ := p.adapter.proofs.last(r.proofKey())
	return seen.prefix
}

// Close lets no new message in and waits for the answers, at most until ctx ends;
// what is unanswered then is ambiguous. It returns soon after ctx whatever the
// broker does: the connection is dropped if it must be.
func (p *Publisher) Close(ctx context.Context) error {
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		p.running.Wait()
		return nil
	}
	p.closed = true
	close(p.closing)
	p.mu.Unlock()

	for waiting := true; waiting; {
		idle := p.idle.wait()
		if len(p.tokens) == 0 {
			break
		}
		select {
		case <-idle:
		case <-ctx.Done():
			waiting = false
		}
	}
	patience := p.adapter.cfg.CloseTimeout
	if deadline, ok := ctx.Deadline(); ok {
		patience = min(patience, time.Until(deadline))
	}
	if ctx.Err() != nil {
		patience = 0
	}
	p.cancel()
	p.mu.Lock()
	p.cut = true
	var open []*channel
	for _, group := range p.pipes {
		for _, pipe := range group {
			pipe.mu.Lock()
			if c := pipe.current; c != nil {
				open = append(open, c)
			}
			pipe.mu.Unlock()
		}
	}
	p.mu.Unlock()
	for _, c := range open {
		c.pipe.end(c, patience)
	}
	p.running.Wait()
	p.adapter.forget(p)
	return nil
}

// stopped tells whether nobody waits for answers any more.
func (p *Publisher) stopped() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cut
}

// level is what a confirm of this endpoint is worth.
func (p *Publisher) level(r *route) messaging.ConfirmationLevel {
	if p.adapter.evidence(r) {
		return messaging.LevelReplicationOrPersistenceAck
	}
	return messaging.LevelBrokerAck
}

// pipe chooses the endpoint's channel: always the same one for a key.
func (p *Publisher) pipe(r *route, m *transport.Message) *pipe {
	p.mu.Lock()
	defer p.mu.Unlock()
	group := p.pipes[r.pipeKey()]
	if group == nil {
		if p.closed {
			return nil
		}
		for range p.adapter.cfg.Channels {
			one := newPipe(p, r)
			group = append(group, one)
			p.start(one.run)
		}
		p.pipes[r.pipeKey()] = group
	}
	if m.NullKey {
		return group[p.rotation.Add(1)%uint32(len(group))]
	}
	return group[maphash.Bytes(p.seed, m.Key)%uint64(len(group))]
}
