package consume

import (
	"sync"

	"github.com/backend-skeleton/relay/messaging"
)

// event is something that the dispatcher is told.
type event struct {
	kind eventKind
	item *item
	job  *job
	do   func()

	result messaging.SettlementResult
}

type eventKind uint8

const (
	doCall             eventKind = iota // run do
	delivered                           // item came
	returned                            // the handler of job has returned
	settlementAnswered                  // result is the answer to the settlement of item
)

// mailbox takes what others have to say to the dispatcher; it never blocks them. Its length is bounded by what may be
// under way: prefetch, concurrency and hand-overs.
type mailbox struct {
	signal chan struct{}

	mu     sync.Mutex // guards what follows
	events []event
	spare  []event
}

func newMailbox() *mailbox { return &mailbox{signal: make(chan struct{}, 1)} }

func (m *mailbox) put(e event) {
	m.mu.Lock()
	m.events = append(m.events, e)
	m.mu.Unlock()
	select {
	case m.signal <- struct{}{}:
	default:
	}
}

// post runs f in the dispatcher's goroutine.
func (m *mailbox) post(f func()) { m.put(event{kind: doCall, do: f}) }

// take gives all that came; the slice is used again by the take after the next.
func (m *mailbox) take() []event {
	m.mu.Lock()
	defer m.mu.Unlock()
	got := m.events
	clear(m.spare)
	m.events, m.spare = m.spare[:0], got
	return got
}
