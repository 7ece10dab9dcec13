package rabbitmq

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/backend-skeleton/relay/messaging"
	"github.com/backend-skeleton/relay/messaging/transport"
)

// call is one Publish with its messages.
type call struct {
	publisher *Publisher
	done      func(i int, r messaging.PublishResult)
	began     time.Time
	keys      map[string]*keyState // keys that occur more than once
}

// keyState follows the messages of one key in one call: after one that is not
// confirmed no later one is written.
type keyState struct{ failed atomic.Bool }

func (k *keyState) broken() bool { return k != nil && k.failed.Load() }

func (k *keyState) note(c messaging.Completion) {
	if k != nil && c != messaging.Confirmed {
		k.failed.Store(true)
	}
}

// keysOf finds the keys that occur more than once.
func keysOf(ms []transport.Message) map[string]*keyState {
	if len(ms) < 2 {
		return nil
	}
	var seen map[string]*keyState
	for i := range ms {
		if ms[i].NullKey {
			continue
		}
		if seen == nil {
			seen = make(map[string]*keyState, len(ms))
		}
		key := string(ms[i].Key)
		if state, again := seen[key]; !again {
			seen[key] = nil
		} else if state == nil {
			seen[key] = &keyState{}
		}
	}
	return seen
}

func (c *call) key(m *transport.Message) *keyState {
	if m.NullKey || c.keys == nil {
		return nil
	}
	return c.keys[string(m.Key)]
}

// publish brings one message to its channel, or gives its verdict.
func (c *call) publish(ctx context.Context, r *route, i int, m *transport.Message) {
	key := c.key(m)
	if key.broken() {
		c.refuse(i, key, failPredecessor)
		return
	}
	p := c.publisher
	out, failure := encode(r, m, p.adapter.cfg.MaxMessageBytes)
	if failure != nil {
		c.refuse(i, key, failure)
		return
	}
	if failure := c.admit(ctx); failure != nil {
		c.refuse(i, key, failure)
		return
	}
	pipe := p.pipe(r, m)
	if pipe == nil {
		p.release()
		c.refuse(i, key, failClosed)
		return
	}
	e := &entry{
		call: c, index: i, key: key, id: out.publishing.MessageId, route: r, message: out,
		giveUp: r.abandonAfter, suspect: p.suspects.has(out.publishing.MessageId),
	}
	if failure := pipe.publish(ctx, e); failure != nil {
		p.release()
		c.refuse(i, key, failure)
	}
}

// admit takes one of the publisher's tokens.
func (c *call) admit(ctx context.Context) *messaging.Failure {
	p := c.publisher
	select {
	case <-p.closing:
		return failClosed
	case <-ctx.Done():
		return failNotSent
	default:
	}
	select {
	case p.tokens <- struct{}{}:
		return nil
	default:
	}
	select {
	case p.tokens <- struct{}{}:
		return nil
	case <-p.closing:
		return failClosed
	case <-ctx.Done():
		if p.adapter.link.blocked() {
			return failBlocked
		}
		return failWindow
	}
}

// refuse is the verdict on a message of which nothing was written.
func (c *call) refuse(i int, key *keyState, f *messaging.Failure) {
	r := notSent(f)
	key.note(r.Completion)
	c.done(i, stamped(r, c.began))
}

// finish is the verdict on a message that was written.
func (c *call) finish(e *entry, r messaging.PublishResult) {
	e.key.note(r.Completion)
	if e.suspect && r.Completion != messaging.Ambiguous {
		c.publisher.suspects.clear(e.id)
	}
	c.publisher.release()
	c.done(e.index, stamped(r, c.began))
}

// release gives a token back.
func (p *Publisher) release() {
	<-p.tokens
	p.idle.fire()
}

// suspects are messages that were open when an exception closed their channel:
// one of them may be the cause. Each is published alone when it comes again, so
// that the next exception names its cause and the others are cleared.
type suspects struct {
	mu    sync.Mutex
	until map[string]time.Time
}

const (
	suspectLife = 15 * time.Minute // longer than a message waits between two attempts
	suspectMost = 10_000
)

func (s *suspects) add(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.until == nil {
		s.until = map[string]time.Time{}
	}
	if len(s.until) >= suspectMost {
		now := time.Now()
		for id, until := range s.until {
			if now.After(until) {
				delete(s.until, id)
			}
		}
	}
	if id != "" && len(s.until) < suspectMost {
		s.until[id] = time.Now().Add(suspectLife)
	}
}

func (s *suspects) has(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.until) == 0 {
		return false
	}
	until, ok := s.until[id]
	return ok && time.Now().Before(until)
}

func (s *suspects) clear(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.until, id)
}
