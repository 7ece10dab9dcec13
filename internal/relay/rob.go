package relay

import (
	"context"
	"slices"
	"time"

	"github.com/backend-skeleton/relay/internal/outbox"
)

// reading of the database's clock, made between two moments of this process's monotonic timer.
type reading struct {
	clock    time.Time
	from, to time.Duration
}

// leapt tells whether the database's clock has moved otherwise than time has, by more than that.
func (r reading) leapt(next reading, more time.Duration) bool {
	least, most := r.clock.Add(next.from-r.to-more), r.clock.Add(next.to-r.from+more)
	return next.clock.Before(least) || next.clock.After(most)
}

// readClock watches for leaps of the database's clock: those who live renew their leases by the new time within a third of
// a lease, and until then they look expired, or endless.
func (s *scout) readClock(now reading) {
	if !s.clock.clock.IsZero() && s.clock.leapt(now, s.r.c.Lease/3) {
		s.r.spareOthers()
	}
	s.clock = now
}

// spareOthers leaves expired lanes to their owners for the length of a lease, in which the living renew theirs.
func (r *Relay) spareOthers() { r.robAfter.Store(int64(r.since() + r.c.Lease)) }

// mayRob gives the moment by the database's clock at which expired lanes may be taken from others; zero where not. A server
// that is not the one of before, restarted or promoted, is no witness that leases ran out: their relays may not have reached
// it yet.
func (s *scout) mayRob(ctx context.Context, wanted []outbox.Work) (time.Time, error) {
	me := s.r.c.Store.Owner()
	if slices.ContainsFunc(wanted, func(w outbox.Work) bool { return w.Expired && w.Owner != me }) {
		started, _, err := s.r.c.Store.ServerStarted(ctx)
		if err != nil {
			return time.Time{}, err
		}
		if !started.Equal(s.r.server) {
			s.r.server = started
			s.r.spareOthers()
		}
	}
	if int64(s.r.since()) < s.r.robAfter.Load() {
		return time.Time{}, nil
	}
	return wanted[0].Now, nil
}
