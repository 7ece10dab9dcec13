package kafka

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	// metadataEvery is the age at which a topic's leaders are asked anew while in
	// use, so that new partitions are found.
	metadataEvery = time.Minute
	// metadataPause is the least time between two questions for one topic.
	metadataPause = 100 * time.Millisecond
	// metadataWait bounds one question: dead and mute brokers are passed over within
	// it.
	metadataWait = 5 * time.Second
	// maxUnread is how often the first proof is asked for before publishing goes on
	// without one.
	maxUnread = 3
	// unknownPatience is how long a topic may be reported missing before that is
	// believed: a new topic is not known to every broker at once.
	unknownPatience = time.Second
)

// topic is what is known about one topic: its leaders, how it is replicated, and
// why it cannot be used, if so.
type topic struct {
	adapter *Adapter
	name    string
	proof   atomic.Pointer[proof] // the last one that was given; nil before
	unread  atomic.Int32          // how often the settings could not be asked for the first proof
	learned atomic.Int64          // largest batch that may be tried, learned from refusals; 0: none

	mu      sync.Mutex
	leaders []int32 // by partition, -1 where there is none; empty until known
	fault   *cause  // why the last answer or question was of no use
	absent  time.Time
	asked   time.Time     // end of the last question
	good    time.Time     // end of the last question that was answered
	running chan struct{} // closed when the question under way is answered
}

// view gives the leaders if they are known, and asks for newer ones when they are
// old.
func (t *topic) view() ([]int32, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.leaders) == 0 || t.proof.Load() == nil {
		return nil, false
	}
	if time.Since(t.asked) > metadataEvery {
		t.ask()
	}
	return t.leaders, true
}

// ready waits until the topic can be published to, or for the cause why not.
func (t *topic) ready(ctx context.Context) ([]int32, *cause) {
	for try := 1; ; try++ {
		if leaders, ok := t.view(); ok {
			return leaders, nil
		}
		answered := t.refresh()
		if answered == nil {
			return nil, causeClosed
		}
		select {
		case <-answered:
		case <-ctx.Done():
			return nil, t.faultOr(causeNotSent)
		}
		if f := t.final(); f != nil {
			return nil, f
		}
		if _, ok := t.view(); !ok && !pause(ctx, backoff(try)) {
			return nil, t.faultOr(causeNotSent)
		}
	}
}

// leader gives the broker that leads the partition. Where there is none, or the
// partition is gone, the cause says so.
func (t *topic) leader(partition int32) (int32, *cause) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case len(t.leaders) == 0 && t.fault != nil:
		return -1, t.fault
	case len(t.leaders) == 0:
		return -1, causeNoLeader
	case int(partition) >= len(t.leaders):
		return -1, causeNoPartition
	case t.leaders[partition] < 0:
		return -1, causeNoLeader
	}
	return t.leaders[partition], nil
}

// final gives the fault that another question will not change soon: a lasting one,
// or a topic that has been missing for a while.
func (t *topic) final() *cause {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.fault == nil:
		return nil
	case t.fault.lasting, t.fault == causeNoTopic && time.Since(t.absent) > unknownPatience:
		return t.fault
	}
	return nil
}

// answeredSince tells whether some broker answered for the topic after a moment.
func (t *topic) answeredSince(then time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.good.After(then)
}

func (t *topic) faultOr(c *cause) *cause {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.fault != nil {
		return t.fault
	}
	return c
}

// refresh asks for the leaders, unless that is under way, and gives the channel that
// is closed with the answer; nil once the adapter is closed.
func (t *topic) refresh() <-chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.ask()
}

// ask is refresh, called locked.
func (t *topic) ask() <-chan struct{} {
	if t.running != nil {
		return t.running
	}
	answered := make(chan struct{})
	wait := metadataPause - time.Since(t.asked)
	if !t.adapter.spawn(func() {
		if wait <= 0 || pause(t.adapter.ctx, wait) {
			t.fetch()
		}
		t.mu.Lock()
		t.running, t.asked = nil, time.Now()
		t.mu.Unlock()
		close(answered)
	}) {
		return nil
	}
	t.running = answered
	return answered
}

// fetch asks the cluster once and keeps what it says.
func (t *topic) fetch() {
	ctx, cancel := context.WithTimeout(t.adapter.ctx, metadataWait)
	defer cancel()
	seen, fault := t.adapter.describe(ctx, t.name)
	if fault == nil && t.proof.Load() == nil {
		if c := t.prove(ctx, seen); c != nil && !c.lasting && t.unread.Add(1) < maxUnread {
			fault = c // publishing waits for the first proof, within reason
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	switch fault {
	case nil:
		t.absent, t.good, t.leaders = time.Time{}, now, seen.leaders
	case causeNoTopic:
		if t.absent.IsZero() {
			t.absent = now
		}
		t.leaders = nil
	}
	t.fault = fault // an outage keeps the leaders: they may still be right
}

// layout is a topic as the metadata show it.
type layout struct {
	leaders []int32
	// replicas is the least number of replicas of a partition.
	replicas int
}

// describe reads one topic's metadata. It never lets the broker create a topic.
func (a *Adapter) describe(ctx context.Context, name string) (layout, *cause) {
	req := kmsg.NewPtrMetadataRequest()
	req.AllowAutoTopicCreation = false
	want := kmsg.NewMetadataRequestTopic()
	want.Topic = &name
	req.Topics = append(req.Topics, want)
	resp, err := req.RequestWith(ctx, a.client)
	if err != nil {
		if c := connectCause(err); c != nil {
			return layout{}, c
		}
		return layout{}, causeUnreachable
	}
	for _, t := range resp.Topics {
		if t.Topic == nil || *t.Topic != name {
			continue
		}
		if c := topicCause(t.ErrorCode); c != nil {
			return layout{}, c
		}
		return layoutOf(t.Partitions), nil
	}
	return layout{}, causeNoTopic
}

func topicCause(code int16) *cause {
	switch code {
	case 0:
		return nil
	case kerr.UnknownTopicOrPartition.Code:
		return causeNoTopic
	case kerr.InvalidTopicException.Code:
		return causeBadTopic
	case kerr.TopicAuthorizationFailed.Code:
		return causeNotAuthorized
	case kerr.ClusterAuthorizationFailed.Code:
		return causeNoRights
	default:
		return causeNoLeader
	}
}

func layoutOf(ps []kmsg.MetadataResponseTopicPartition) layout {
	l := layout{leaders: make([]int32, len(ps)), replicas: -1}
	for i := range l.leaders {
		l.leaders[i] = -1
	}
	for _, p := range ps {
		if l.replicas < 0 || len(p.Replicas) < l.replicas {
			l.replicas = len(p.Replicas)
		}
		if int(p.Partition) < len(l.leaders) && p.ErrorCode != kerr.LeaderNotAvailable.Code {
			l.leaders[p.Partition] = p.Leader
		}
	}
	return l
}
