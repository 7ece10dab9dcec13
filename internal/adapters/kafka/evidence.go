package kafka

import (
	"context"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/backend-skeleton/relay/messaging"
)

// proof is what a topic's settings say about an acks=all answer.
type proof struct {
	// replicated: every partition has at least two replicas and an append needs at
	// least two in sync, so a confirmation covers a second broker.
	replicated bool
	// maxMessage is the topic's limit of a record batch in bytes; 0 is unknown.
	maxMessage int
}

// Stand-ins for a topic whose settings could not be read, or must not be: nothing is
// claimed.
var (
	unproved   = &proof{}
	unreadable = &proof{}
)

// configWait bounds the question for a topic's settings, which publishing waits for
// once, at the topic's first use.
const configWait = 2 * time.Second

// level is what a confirmation of the topic proves at this time.
func (t *topic) level() messaging.ConfirmationLevel {
	if p := t.proof.Load(); p != nil && p.replicated {
		return messaging.LevelReplicationOrPersistenceAck
	}
	return messaging.LevelBrokerAck
}

// batchLimit is the largest batch worth trying on the topic.
func (t *topic) batchLimit() int {
	limit := t.adapter.conf.BatchBytes
	if p := t.proof.Load(); p != nil && p.maxMessage > 0 {
		limit = min(limit, p.maxMessage)
	}
	if l := int(t.learned.Load()); l > 0 {
		limit = min(limit, l)
	}
	return limit
}

// maxMessage is the topic's own limit, 0 where it is not known.
func (t *topic) maxMessage() int {
	if p := t.proof.Load(); p != nil {
		return p.maxMessage
	}
	return 0
}

// tooLarge notes that a batch of several records and so many bytes was refused for
// its size, where the topic's settings are not readable.
func (t *topic) tooLarge(bytes int) {
	t.learned.Store(int64(max(bytes/2, 1)))
}

// prove asks for the topic's settings and keeps the answer. Where they cannot be
// asked the last answer stays; without the right to ask, or after some tries for the
// first one, nothing is claimed.
func (t *topic) prove(ctx context.Context, seen layout) *cause {
	ctx, cancel := context.WithTimeout(ctx, configWait)
	defer cancel()
	found, c := t.adapter.settingsOfTopic(ctx, t.name, seen)
	switch {
	case c == nil:
		if was := t.proof.Swap(found); was != nil && was.replicated && !found.replicated {
			t.adapter.log.Warn("topic no longer replicated: confirmations prove less", "topic", t.name)
		}
		t.learned.Store(0)
	case t.proof.Load() != nil:
	case c.lasting:
		t.proof.Store(unreadable)
	case t.unread.Load() >= maxUnread-1:
		t.proof.Store(unproved)
	}
	return c
}

// keepEvidence asks for every topic's settings again and again: soon where they
// could not be asked yet, else at the configured interval.
func (a *Adapter) keepEvidence() {
	soon := min(10*time.Second, a.conf.EvidenceEvery)
	last := time.Now()
	for pause(a.ctx, soon) {
		all := time.Since(last) >= a.conf.EvidenceEvery
		if all {
			last = time.Now()
		}
		for _, t := range a.knownTopics() {
			if p := t.proof.Load(); p != nil && (all || p == unproved) {
				ctx, cancel := context.WithTimeout(a.ctx, metadataWait)
				if seen, c := a.describe(ctx, t.name); c == nil {
					t.prove(ctx, seen)
				}
				cancel()
			}
		}
	}
}

func (a *Adapter) knownTopics() []*topic {
	a.mu.Lock()
	defer a.mu.Unlock()
	ts := make([]*topic, 0, len(a.topics))
	for _, t := range a.topics {
		ts = append(ts, t)
	}
	return ts
}

// settingsOfTopic reads min.insync.replicas and max.message.bytes. It needs the
// right to describe the topic's configuration.
func (a *Adapter) settingsOfTopic(ctx context.Context, name string, seen layout) (*proof, *cause) {
	req := kmsg.NewPtrDescribeConfigsRequest()
	r := kmsg.NewDescribeConfigsRequestResource()
	r.ResourceType = kmsg.ConfigResourceTypeTopic
	r.ResourceName = name
	r.ConfigNames = []string{"min.insync.replicas", "max.message.bytes"}
	req.Resources = append(req.Resources, r)
	resp, err := req.RequestWith(ctx, a.client)
	if err != nil {
		if c := connectCause(err); c != nil {
			return nil, c
		}
		return nil, causeUnreachable
	}
	for _, r := range resp.Resources {
		if r.ErrorCode == kerr.TopicAuthorizationFailed.Code {
			return nil, causeNotAuthorized
		}
		if c := topicCause(r.ErrorCode); c != nil {
			return nil, c
		}
		p := &proof{}
		for _, c := range r.Configs {
			if c.Value == nil {
				continue
			}
			n, err := strconv.Atoi(*c.Value)
			if err != nil {
				continue
			}
			switch c.Name {
			case "min.insync.replicas":
				p.replicated = n >= 2 && seen.replicas >= 2
			case "max.message.bytes":
				p.maxMessage = n
			}
		}
		return p, nil
	}
	return nil, causeNoTopic
}
