package relay

import (
	"errors"
	"sync"
	"time"

	"github.com/backend-skeleton/relay/internal/outbox"
)

// Why nothing is ready while the database does not do its part.
const (
	reasonUnavailable = "DATABASE_UNAVAILABLE"
	reasonReadOnly    = "DATABASE_READ_ONLY"
	reasonFull        = "DATABASE_FULL"
	reasonDenied      = "DATABASE_DENIED"
	reasonFails       = "DATABASE_FAILS"
)

// staleTrouble is for how long a failure counts: whoever still has work tries again sooner, and who has none left learns
// nothing of the end.
const staleTrouble = 15 * time.Second

// trouble is why the database does not work for somebody, since when, and when that was met last.
type trouble struct {
	reason      string
	since, last time.Time
}

// database remembers what is wrong with it, as each of those met it who keep a relay going: pumps, recorders, the renewer
// and the scout. What works again for one may still be denied to another: a heartbeat needs no room and another right.
type database struct {
	mu   sync.Mutex // guards what follows
	with map[any]trouble
}

// failed notes the error of somebody who has failed so many times in a row.
func (d *database) failed(who any, times int, err error) {
	reason := reasonOf(err)
	if (reason == reasonFails || reason == reasonUnavailable) && times < 3 {
		return // a session that was ended, a statement that was cancelled: the next one tells
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.with == nil {
		d.with = map[any]trouble{}
	}
	now := time.Now()
	before, known := d.with[who]
	if !known {
		before.since = now
	}
	d.with[who] = trouble{reason: reason, since: before.since, last: now}
}

// works notes that it works for somebody, and what that proves for all: it answers, and where something was written it takes
// writes.
func (d *database) works(who any, wrote bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.with, who)
	for other, t := range d.with {
		if t.reason == reasonUnavailable || (wrote && t.reason == reasonReadOnly) {
			delete(d.with, other)
		}
	}
}

// now gives the trouble that began first; nil where there is none.
func (d *database) now() *trouble {
	d.mu.Lock()
	defer d.mu.Unlock()
	var first *trouble
	for who, t := range d.with {
		if time.Since(t.last) > staleTrouble {
			delete(d.with, who)
			continue
		}
		if first == nil || t.since.Before(first.since) {
			first = &t
		}
	}
	return first
}

func reasonOf(err error) string {
	switch {
	case errors.Is(err, outbox.ErrReadOnly):
		return reasonReadOnly
	case errors.Is(err, outbox.ErrFull):
		return reasonFull
	case errors.Is(err, outbox.ErrDenied):
		return reasonDenied
	case errors.Is(err, outbox.ErrUnreachable):
		return reasonUnavailable
	}
	return reasonFails
}
