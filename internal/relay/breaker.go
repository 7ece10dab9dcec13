package relay

import (
	"sync"
	"time"
)

// BreakerState of a broker or destination.
type BreakerState uint8

// The states.
const (
	BreakerClosed   BreakerState = iota // rows flow
	BreakerOpen                         // nothing is claimed
	BreakerHalfOpen                     // the broker answered; one row finds out
)

// String gives the contract's word.
func (s BreakerState) String() string {
	return [...]string{"CLOSED", "OPEN", "HALF_OPEN"}[s]
}

// BreakerConfig of every breaker.
type BreakerConfig struct {
	// Failures in a row, without a success between, that open it. Default 5.
	Failures int
	// OpenFor is how long it stays open the first time, doubled up to OpenMax. Defaults 1 s and 30 s.
	OpenFor, OpenMax time.Duration
}

// newBreaker is closed.
func newBreaker(c BreakerConfig, change func(s BreakerState, reason string)) *breaker {
	return &breaker{c: c, change: change, since: time.Now()}
}

// breaker counts failures and says whether rows may be sent. It is shared by the pumps of a broker.
type breaker struct {
	c      BreakerConfig
	change func(s BreakerState, reason string)

	mu       sync.Mutex // guards what follows
	state    BreakerState
	reason   string
	since    time.Time
	failures int
	failedAt time.Time // the last of them
	halfAt   time.Time // since when it has been half open
	openFor  time.Duration
	until    time.Time
	busy     bool // a probe or a probe row is on its way
}

// permit is what a pump may do now.
type permit struct {
	// rows that may be claimed; negative is any number, 0 none.
	rows int
	// probe asks the pump to ask the broker something harmless.
	probe bool
	// wait until something may change; zero where rows may flow.
	wait time.Duration
}

func (b *breaker) permit(now time.Time) permit {
	if b.untried(now) {
		b.success()
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.state == BreakerClosed:
		return permit{rows: -1}
	case b.busy:
		return permit{wait: b.c.OpenFor}
	case b.state == BreakerHalfOpen:
		return permit{rows: 1}
	case now.Before(b.until):
		return permit{wait: b.until.Sub(now)}
	default:
		return permit{probe: true}
	}
}

// untried tells that the broker answered a while ago and no row was there to find out the rest. It closes then, lest
// the destination stays unready with nothing to send, or with rows that wait until nothing speaks against it.
func (b *breaker) untried(now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.state == BreakerHalfOpen && !b.busy && now.Sub(b.halfAt) >= b.c.OpenMax
}

// reserve takes the one probe, or the one probe row, that an open breaker allows.
func (b *breaker) reserve() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.state == BreakerClosed {
		return true
	}
	if b.busy {
		return false
	}
	b.busy = true
	return true
}

// release gives a reservation back unused.
func (b *breaker) release() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.busy = false
}

// answered: the probe was answered, a row may find out the rest.
func (b *breaker) answered() {
	b.mu.Lock()
	b.busy = false
	changed := b.state == BreakerOpen
	if changed {
		b.state, b.halfAt = BreakerHalfOpen, time.Now()
	}
	reason := b.reason
	b.mu.Unlock()
	if changed {
		b.change(BreakerHalfOpen, reason)
	}
}

// success of a row closes it.
func (b *breaker) success() {
	b.mu.Lock()
	changed := b.state != BreakerClosed
	b.failures, b.busy, b.openFor = 0, false, 0
	if changed {
		b.state, b.reason, b.since = BreakerClosed, "", time.Now()
	}
	b.mu.Unlock()
	if changed {
		b.change(BreakerClosed, "")
	}
}

// failure counts one; enough in a row open it.
func (b *breaker) failure(reason string) {
	b.mu.Lock()
	b.failures++
	b.failedAt = time.Now()
	enough := b.failures >= b.c.Failures || b.state != BreakerClosed
	b.mu.Unlock()
	if enough {
		b.open(reason)
	}
}

// open stops everything for a while. Opened again before it closed, it stays open twice as long.
func (b *breaker) open(reason string) {
	b.mu.Lock()
	now := time.Now()
	if b.state == BreakerOpen && !b.busy && now.Before(b.until) { // rows that were on their way when it opened
		b.mu.Unlock()
		return
	}
	if b.openFor = min(max(2*b.openFor, b.c.OpenFor), b.c.OpenMax); b.state == BreakerClosed {
		b.openFor, b.since = b.c.OpenFor, now
	}
	changed := b.state != BreakerOpen || b.reason != reason
	b.state, b.reason, b.busy, b.until = BreakerOpen, reason, false, now.Add(b.openFor)
	b.mu.Unlock()
	if changed {
		b.change(BreakerOpen, reason)
	}
}

// calm tells that it is closed and counts no failure; one that nothing followed for a while says no more.
func (b *breaker) calm() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.state == BreakerClosed && (b.failures == 0 || time.Since(b.failedAt) >= b.c.OpenMax)
}

// relapse opens it again if it was not closed: the row that should find out got no answer.
func (b *breaker) relapse(reason string) {
	b.mu.Lock()
	closed := b.state == BreakerClosed
	b.mu.Unlock()
	if !closed {
		b.open(reason)
	}
}

// openSince tells that it has been open for longer than d.
func (b *breaker) openSince(d time.Duration) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.state == BreakerOpen && time.Since(b.since) > d
}

func (b *breaker) snapshot() (s BreakerState, reason string, since time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.state, b.reason, b.since
}
