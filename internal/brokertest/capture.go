package brokertest

import (
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/backend-skeleton/relay/internal/testenv"
)

// Message is one delivery as a plain consumer saw it.
type Message struct {
	// ID is the header msg.id.
	ID string
	// Key is the Kafka record's key or the AMQP routing key; HasKey is false for a Kafka record without one.
	Key    string
	HasKey bool
	// Headers holds every header's values in order, as text.
	Headers map[string][]string
	Body    []byte
	// From is the topic or the queue.
	From    string
	Arrived time.Time

	// Record or Delivery is what the client library handed over, for checks of what is not above.
	Record   *kgo.Record
	Delivery *amqp.Delivery
}

// Header is the first value of a header, empty when it is absent.
func (m Message) Header(name string) string {
	if values := m.Headers[name]; len(values) > 0 {
		return values[0]
	}
	return ""
}

// Capture keeps every delivery in the order of arrival. It is safe for concurrent use.
type Capture struct {
	mu       sync.Mutex
	messages []Message
	changed  chan struct{} // closed and replaced at each arrival
}

func newCapture() *Capture { return &Capture{changed: make(chan struct{})} }

func (c *Capture) add(m Message) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.messages = append(c.messages, m)
	close(c.changed)
	c.changed = make(chan struct{})
}

func (c *Capture) snapshot() ([]Message, <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clip(c.messages), c.changed
}

// All returns what has arrived until now.
func (c *Capture) All() []Message {
	all, _ := c.snapshot()
	return all
}

// Len is the number of deliveries until now.
func (c *Capture) Len() int { return len(c.All()) }

// IDs counts the deliveries of each message id.
func (c *Capture) IDs() map[string]int { return countIDs(c.All()) }

func countIDs(messages []Message) map[string]int {
	ids := map[string]int{}
	for _, m := range messages {
		ids[m.ID]++
	}
	return ids
}

// Duplicates lists the ids that were delivered more than once.
func (c *Capture) Duplicates() []string {
	var twice []string
	for id, n := range c.IDs() {
		if n > 1 {
			twice = append(twice, id)
		}
	}
	slices.Sort(twice)
	return twice
}

// ByKey groups what has arrived by key, in order of arrival.
func (c *Capture) ByKey() map[string][]Message {
	keys := map[string][]Message{}
	for _, m := range c.All() {
		keys[m.Key] = append(keys[m.Key], m)
	}
	return keys
}

// Wait returns when n deliveries have arrived, and fails the test when limit, as [testenv.Within] counts it, passes before.
func (c *Capture) Wait(t testing.TB, n int, limit time.Duration) []Message {
	t.Helper()
	all, ok := c.await(testenv.Within(limit), func(all []Message) bool { return len(all) >= n })
	if !ok {
		t.Fatalf("%d deliveries within %v, want %d", len(all), limit, n)
	}
	return all
}

// WaitIDs returns when n different message ids have arrived, and fails the test when limit passes before.
func (c *Capture) WaitIDs(t testing.TB, n int, limit time.Duration) []Message {
	t.Helper()
	all, ok := c.await(testenv.Within(limit), func(all []Message) bool { return len(all) >= n && len(countIDs(all)) >= n })
	if !ok {
		t.Fatalf("%d message ids in %d deliveries within %v, want %d", len(countIDs(all)), len(all), limit, n)
	}
	return all
}

// WaitFor returns when all of ids have arrived, in any order and number, and fails the test when limit passes before.
func (c *Capture) WaitFor(t testing.TB, limit time.Duration, ids ...string) []Message {
	t.Helper()
	missing := func(all []Message) (left int) {
		have := countIDs(all)
		for _, id := range ids {
			if have[id] == 0 {
				left++
			}
		}
		return left
	}
	all, ok := c.await(testenv.Within(limit), func(all []Message) bool { return missing(all) == 0 })
	if !ok {
		t.Fatalf("%d of %d messages are missing after %v; %d deliveries came", missing(all), len(ids), limit, len(all))
	}
	return all
}

// Quiet returns when nothing has arrived for a whole period, and fails the test when something does. It is for proving
// that no further delivery comes, after the event that would have caused one.
func (c *Capture) Quiet(t testing.TB, period time.Duration) {
	t.Helper()
	before := c.Len()
	if all, more := c.await(period, func(all []Message) bool { return len(all) > before }); more {
		t.Fatalf("%d more deliveries came, want none", len(all)-before)
	}
}

func (c *Capture) await(limit time.Duration, done func([]Message) bool) ([]Message, bool) {
	deadline := time.NewTimer(limit)
	defer deadline.Stop()
	for {
		all, changed := c.snapshot()
		if done(all) {
			return all, true
		}
		select {
		case <-changed:
		case <-deadline.C:
			return all, false
		}
	}
}

// messageID is the name of the header that carries the message's id.
const messageID = "msg.id"

func addHeader(headers map[string][]string, name, value string) {
	headers[name] = append(headers[name], strings.Clone(value))
}
