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
	// SlowStart is how many rows of a destination may be open right after its breaker, or its broker's, closed again. Once
	// so many were confirmed it doubles, and above 1,000 it no longer counts. Default 10; 1,000 is next to no slow start.
	SlowStart int
}

// fullSpeed is the window from which a slow start is over.
const fullSpeed = 1000

// newBreaker is closed. pace is told of every step of a slow start: how many rows a destination may have open, 0 when it
// is over.
func newBreaker(c BreakerConfig, change func(s BreakerState, reason string), pace func(rows int)) *breaker {
	return &breaker{c: c, change: change, pace: pace, since: time.Now()}
}

// breaker counts failures and says whether rows may be sent. It is shared by the pumps of a broker.
type breaker struct {
	c      BreakerConfig
	change func(s BreakerState, reason string)
	pace   func(rows int)

	mu       sync.Mutex // guards what follows
	state    BreakerState
	reason   string
	since    time.Time
	failures int
	failedAt time.Time // the last of them
	halfAt   time.Time // since when it has been half open
	openFor  time.Duration
	until    time.Time
	holder   ticket // of the probe or the probe row that is on its way; 0 for none
	tickets  ticket // given so far
	window   int    // rows that a destination may have open after a recovery; 0 is any number
	grown    int    // confirmed since the window grew last
	okAt     time.Time
}

// ticket is the right to the one probe, or the one probe row, that a breaker allows. Its holder alone gives it back: what
// an older row learns says nothing of the probe. Zero is no ticket.
type ticket uint64

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
	case b.holder != 0:
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
	return b.state == BreakerHalfOpen && b.holder == 0 && now.Sub(b.halfAt) >= b.c.OpenMax
}

// reserve takes the one probe, or the one probe row, that an open breaker allows. A closed one asks for no ticket.
func (b *breaker) reserve() (t ticket, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.state == BreakerClosed {
		return 0, true
	}
	if b.holder != 0 {
		return 0, false
	}
	b.tickets++
	b.holder = b.tickets
	return b.holder, true
}

// release gives a reservation back unused; one that is not in force any more changes nothing.
func (b *breaker) release(t ticket) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if t != 0 && b.holder == t {
		b.holder = 0
	}
}

// answered: the probe was answered, a row may find out the rest.
func (b *breaker) answered(t ticket) {
	b.release(t)
	b.mu.Lock()
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

// success of a row closes it. What waited is let out step by step.
func (b *breaker) success() {
	b.mu.Lock()
	changed, before := b.state != BreakerClosed, b.window
	b.failures, b.holder, b.openFor, b.okAt = 0, 0, 0, time.Now()
	switch {
	case changed:
		b.state, b.reason, b.since = BreakerClosed, "", time.Now()
		b.window, b.grown = b.c.SlowStart, 0
	case b.window > 0:
		if b.grown++; b.grown >= b.window {
			b.window, b.grown = 2*b.window, 0
		}
		if b.window > fullSpeed {
			b.window = 0
		}
	}
	window := b.window
	b.mu.Unlock()
	if changed {
		b.change(BreakerClosed, "")
	}
	if window != before {
		b.pace(window)
	}
}

// room is how many of the wanted rows a destination may open that has so many open already.
func (b *breaker) room(want, open int) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.window == 0 {
		return want
	}
	return min(want, max(b.window-open, 0))
}

// failure counts one; enough in a row open it. t is the row's ticket, if it has one.
func (b *breaker) failure(reason string, t ticket) {
	b.mu.Lock()
	b.failures++
	b.failedAt = time.Now()
	enough := b.failures >= b.c.Failures || b.state != BreakerClosed
	b.mu.Unlock()
	if enough {
		b.open(reason, t)
	}
}

// open stops everything for a while. Opened again before it closed, it stays open twice as long. Rows that were on their
// way when it opened change nothing any more: the probe finds out.
func (b *breaker) open(reason string, t ticket) {
	b.mu.Lock()
	now := time.Now()
	older := b.holder != t || (t == 0 && b.state == BreakerOpen && now.Before(b.until))
	if b.state != BreakerClosed && older {
		b.mu.Unlock()
		return
	}
	if b.openFor = min(max(2*b.openFor, b.c.OpenFor), b.c.OpenMax); b.state == BreakerClosed {
		b.openFor, b.since = b.c.OpenFor, now
	}
	changed := b.state != BreakerOpen || b.reason != reason
	b.state, b.reason, b.holder, b.until = BreakerOpen, reason, 0, now.Add(b.openFor)
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
func (b *breaker) relapse(reason string, t ticket) {
	b.mu.Lock()
	closed := b.state == BreakerClosed
	b.mu.Unlock()
	if !closed {
		b.open(reason, t)
	}
}

// openSince tells that it has been open for longer than d.
func (b *breaker) openSince(d time.Duration) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.state == BreakerOpen && time.Since(b.since) > d
}

// slow is how many rows a destination may have open after a recovery; 0 is any number.
func (b *breaker) slow() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.window
}

func (b *breaker) snapshot() (s BreakerState, reason string, since time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.state, b.reason, b.since
}

// answeredAt is when a row was last answered; zero for never.
func (b *breaker) answeredAt() time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.okAt
}
