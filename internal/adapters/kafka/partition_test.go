package kafka

import (
	"testing"

	"github.com/backend-skeleton/relay/messaging"
)

// TestTakeLeavesWhatIsOver: when a call's time ends while its worker takes, an earlier
// message may be resolved as unsent already: no later one is taken.
func TestTakeLeavesWhatIsOver(t *testing.T) {
	t.Parallel()
	a, p := fakeCluster(t).adapter(t)
	part := p.partitionsOf(a.topic("relay.t"), 1)[0]
	over := newCall(p, numbered("k", "m", 2, 0), func(int, messaging.PublishResult) {})
	live := newCall(p, numbered("other", "n", 1, 0), func(int, messaging.PublishResult) {})
	for _, c := range []*call{over, live} {
		for i := range c.items {
			c.items[i].state.Store(itemQueued)
			part.queue = append(part.queue, &c.items[i])
		}
	}
	over.over.Store(true)
	over.items[0].state.Store(itemDone)

	taken := part.take()
	if len(taken) != 1 || taken[0] != &live.items[0] {
		t.Errorf("%d messages taken, want the other call's one", len(taken))
	}
	if s := over.items[1].state.Load(); s != itemQueued {
		t.Errorf("the later message is in state %d: only the end of its call may resolve it", s)
	}
}

// TestTakeKeepsToTheLimit: a batch ends before the limit; a single larger message
// makes one of its own.
func TestTakeKeepsToTheLimit(t *testing.T) {
	t.Parallel()
	a, p := fakeCluster(t).adapter(t, func(c *Config) { c.BatchBytes = 1000 })
	part := p.partitionsOf(a.topic("relay.t"), 1)[0]
	sizes := []int{300, 300, 300, 300, 5000, 100, 100}
	c := newCall(p, numbered("k", "m", len(sizes), 0), func(int, messaging.PublishResult) {})
	for i := range c.items {
		c.items[i].size = sizes[i]
		c.items[i].state.Store(itemQueued)
		part.queue = append(part.queue, &c.items[i])
	}
	part.busy = true
	var got []int
	for taken := part.take(); taken != nil; taken = part.take() {
		got = append(got, len(taken))
	}
	want := []int{3, 1, 1, 2}
	if len(got) != len(want) {
		t.Fatalf("batches of %v, want %v", got, want)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Fatalf("batches of %v, want %v", got, want)
		}
	}
	if part.busy {
		t.Error("the worker has ended and the queue believes it goes on")
	}
}
