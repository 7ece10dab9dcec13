package messagingtest

import (
	"sync"
	"time"
)

// Clock is the time of a [Broker]: when a delay is over.
type Clock interface {
	Now() time.Time
	// AfterFunc calls f once d has passed, on a goroutine of its own or on the one
	// that moves the clock; stop prevents a call that has not begun.
	AfterFunc(d time.Duration, f func()) (stop func() bool)
}

// wallClock is the time of the machine, or of the bubble of testing/synctest.
type wallClock struct{}

func (wallClock) Now() time.Time { return time.Now() }

func (wallClock) AfterFunc(d time.Duration, f func()) func() bool { return time.AfterFunc(d, f).Stop }

// ManualClock stands still until a test moves it. Make it with [NewClock].
type ManualClock struct {
	mu     sync.Mutex // guards what follows
	now    time.Time
	timers []*manualTimer // in no order
}

type manualTimer struct {
	due time.Time
	f   func()
}

// NewClock makes a clock that stands at an arbitrary moment.
func NewClock() *ManualClock {
	return &ManualClock{now: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
}

// Now gives the moment at which the clock stands.
func (c *ManualClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// AfterFunc calls f within the [ManualClock.Advance] that reaches d.
func (c *ManualClock) AfterFunc(d time.Duration, f func()) func() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := &manualTimer{due: c.now.Add(d), f: f}
	c.timers = append(c.timers, t)
	return func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.drop(t)
	}
}

// Advance moves the clock by d and calls what falls due, the earliest first.
func (c *ManualClock) Advance(d time.Duration) {
	c.mu.Lock()
	end := c.now.Add(d)
	for {
		next := c.earliest(end)
		if next == nil {
			break
		}
		c.drop(next)
		c.now = next.due
		c.mu.Unlock()
		next.f()
		c.mu.Lock()
	}
	c.now = end
	c.mu.Unlock()
}

func (c *ManualClock) earliest(end time.Time) (first *manualTimer) {
	for _, t := range c.timers {
		if !t.due.After(end) && (first == nil || t.due.Before(first.due)) {
			first = t
		}
	}
	return first
}

func (c *ManualClock) drop(t *manualTimer) bool {
	for i, other := range c.timers {
		if other == t {
			c.timers = append(c.timers[:i], c.timers[i+1:]...)
			return true
		}
	}
	return false
}
