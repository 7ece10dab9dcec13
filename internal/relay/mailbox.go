package relay

import (
	"sync"

	"github.com/backend-skeleton/relay/messaging"
)

// answer of an adapter, or of its deadline, for one row.
type answer struct {
	f    *flight
	r    messaging.PublishResult
	kind answerKind
}

type answerKind uint8

const (
	verdict  answerKind = iota // the row's outcome
	resolved                   // the adapter is done, the verdict was its own
	late                       // the adapter is done, the verdict was the deadline's
)

// mailbox takes what others have to say to a pump; it never blocks them.
type mailbox struct {
	signal chan struct{}

	mu      sync.Mutex // guards what follows
	answers []answer
	calls   []func()
}

func newMailbox() *mailbox { return &mailbox{signal: make(chan struct{}, 1)} }

func (m *mailbox) wake() {
	select {
	case m.signal <- struct{}{}:
	default:
	}
}

func (m *mailbox) answer(a answer) {
	m.mu.Lock()
	m.answers = append(m.answers, a)
	m.mu.Unlock()
	m.wake()
}

// post runs f in the pump's goroutine.
func (m *mailbox) post(f func()) {
	m.mu.Lock()
	m.calls = append(m.calls, f)
	m.mu.Unlock()
	m.wake()
}

func (m *mailbox) take() (answers []answer, calls []func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	answers, calls = m.answers, m.calls
	m.answers, m.calls = nil, nil
	return answers, calls
}
