package rabbitmq

import (
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/backend-skeleton/relay/messaging"
)

// entry is one message from its admission to its verdict.
type entry struct {
	call  *call
	index int
	key   *keyState // nil for a message without key, or alone in its call

	id        string // the message-id property, which a return repeats
	route     *route
	message   outgoing
	suspect   bool // was open when an exception closed a channel
	giveUp    time.Duration
	published time.Time

	tag      uint64 // delivery tag on its channel instance
	start    uint64 // position on the wire before its first byte
	returned bool
	resolved bool
	refused  bool // the library refused it before a byte was written
	deferred *amqp.DeferredConfirmation
}

// alone tells whether nothing else may be open beside the entry: so that a
// return without a message id, or an exception, can only mean it.
func (e *entry) alone() bool { return e.suspect || e.id == "" }

// resolve gives the verdict, exactly once.
func (e *entry) resolve(r messaging.PublishResult) { e.call.finish(e, r) }

// ledger holds the messages of one channel instance that have no verdict yet.
// Delivery tags start at 1 with every instance, so that no answer can ever meet
// a message of another one. It is not safe for concurrent use.
type ledger struct {
	next    uint64 // tag of the next message
	entries []*entry
	ids     map[string]*entry
	open    int
	lonely  bool // the open message must stay alone
}

func newLedger() ledger { return ledger{next: 1, ids: map[string]*entry{}} }

// admits tells whether e may be written now. An id is open once at most, so that
// a return can mean one message only; before the channel is proven, one message
// goes alone.
func (l *ledger) admits(e *entry, window int, proven bool) bool {
	switch {
	case l.open == 0:
		return true
	case !proven || l.lonely || e.alone() || l.open >= window:
		return false
	default:
		_, twice := l.ids[e.id]
		return !twice
	}
}

// add gives e the next delivery tag.
func (l *ledger) add(e *entry) {
	e.tag = l.next
	l.next++
	l.entries = append(l.entries, e)
	l.ids[e.id] = e
	l.open++
	l.lonely = e.alone()
}

// find gives the open message with the tag, or nil.
func (l *ledger) find(tag uint64) *entry {
	if len(l.entries) == 0 || tag < l.entries[0].tag || tag >= l.next {
		return nil
	}
	if e := l.entries[tag-l.entries[0].tag]; !e.resolved {
		return e
	}
	return nil
}

// markReturned pins a return on the open message with the id, and on no other.
func (l *ledger) markReturned(id string) bool {
	e := l.ids[id]
	if e == nil {
		return false
	}
	e.returned = true
	return true
}

// settle takes e out: it has its verdict.
func (l *ledger) settle(e *entry) {
	if e.resolved {
		return
	}
	e.resolved = true
	l.open--
	if l.ids[e.id] == e {
		delete(l.ids, e.id)
	}
	if l.open == 0 {
		l.lonely = false
	}
	for len(l.entries) > 0 && l.entries[0].resolved {
		l.entries[0] = nil
		l.entries = l.entries[1:]
	}
}

// rest gives the open messages in the order in which they were written.
func (l *ledger) rest() []*entry {
	open := make([]*entry, 0, l.open)
	for _, e := range l.entries {
		if !e.resolved {
			open = append(open, e)
		}
	}
	return open
}

// overdue tells whether the adapter's patience with an open message is over.
func (l *ledger) overdue(now time.Time) bool {
	for _, e := range l.entries {
		if !e.resolved && now.Sub(e.published) >= e.giveUp {
			return true
		}
	}
	return false
}
