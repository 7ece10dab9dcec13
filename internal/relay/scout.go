package relay

import (
	"context"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/backend-skeleton/relay/internal/outbox"
)

const (
	// busyPoll is the pause between looks while there is work; wokenPoll is the least pause after a wake-up, which goes to
	// the pumps directly where they are few.
	busyPoll  = 25 * time.Millisecond
	wokenPoll = 10 * time.Millisecond
	// costFactor keeps looking for work a small part of the time, whatever it costs.
	costFactor = 20
)

// scout looks for lanes with work and gets them a reader.
type scout struct {
	r     *Relay
	pumps map[string]*pump
	free  map[int32]time.Time // since when a lane with work has had no owner
	stuck map[int32]int       // looks in a row in which a lane's due rows moved nobody
	// empty looks in a row, for a run until empty.
	empty    int
	unknown  time.Time // when rows of unknown destinations were parked last
	peers    []outbox.Peer
	peersAt  time.Time
	clock    reading // of the database's clock, the last one
	failures int     // looks in a row that failed
}

// run until ctx ends. Where untilEmpty is set it returns when two looks in a row found nothing to send.
func (s *scout) run(ctx context.Context, untilEmpty bool) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	pause := busyPoll
	var start time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		case <-s.r.woken:
			if pause = busyPoll; time.Since(start) < wokenPoll {
				timer.Reset(wokenPoll)
				continue
			}
		}
		start = time.Now()
		busy, err := s.look(ctx)
		cost := time.Since(start)
		if err == nil {
			s.failures = 0
			s.r.database.works(s, false)
		}
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			s.r.c.Hooks.Trouble("look for work", err)
			s.failures++
			s.r.database.failed(s, s.failures, err)
			pause = min(max(2*pause, 100*time.Millisecond), 2*time.Second)
		case busy:
			pause = busyPoll
		default:
			pause = min(pause*3/2, s.r.c.Poll)
		}
		if untilEmpty && s.empty >= 2 {
			return
		}
		pause = max(pause, min(costFactor*cost, s.r.c.Poll))
		timer.Reset(pause + time.Duration(s.r.jitter()*float64(pause)/10))
	}
}

// look once: it wakes the pumps of lanes with work, and sees to it that each such lane has an owner.
func (s *scout) look(ctx context.Context) (busy bool, err error) {
	before := s.r.since()
	work, err := s.r.c.Store.FindWork(ctx)
	if err != nil {
		return false, err
	}
	if len(work) > 0 {
		s.readClock(reading{clock: work[0].Now, from: before, to: s.r.since()})
	}
	if time.Since(s.peersAt) > min(s.r.c.Poll, s.r.c.Lease/8) {
		if s.peers, err = s.r.c.Store.Peers(ctx); err != nil {
			return false, err
		}
		s.peersAt = time.Now()
	}
	paused, err := s.r.c.Store.Pauses(ctx)
	if err != nil {
		return false, err
	}
	for name, p := range s.pumps {
		reason, stop := paused[name]
		p.pauseFor(reason, stop)
		p.unfit.Store((p.breaker.openSince(s.r.c.Lease) || p.broker.breaker.openSince(s.r.c.Lease)) && len(s.others(p)) > 0)
	}
	s.r.alive()
	s.r.polled.Store(int64(s.r.since()))
	byDestination := map[string][]outbox.Work{}
	var unknown []int32
	for _, w := range work {
		if w.Destination == "" {
			unknown = append(unknown, w.Lane)
			continue
		}
		if s.pumps[w.Destination] != nil {
			byDestination[w.Destination] = append(byDestination[w.Destination], w)
		}
	}
	open := false
	for name, ws := range byDestination {
		o, err := s.serve(ctx, s.pumps[name], ws)
		if err != nil {
			return false, err
		}
		open = open || o
	}
	for _, p := range s.pumps {
		busy = busy || p.busy.Load()
	}
	if open || busy {
		s.empty = 0
	} else {
		s.empty++
	}
	return busy, s.parkUnknown(ctx, unknown)
}

// serve sees to one destination, and tells whether there is something to wait for.
func (s *scout) serve(ctx context.Context, p *pump, work []outbox.Work) (open bool, err error) {
	me := s.r.c.Store.Owner()
	var mine, wanted []outbox.Work
	held := map[uuid.UUID]int{}
	now := time.Now()
	for _, w := range work {
		due := w.Pending || w.Due <= 0
		l := s.r.registry.get(w.Lane)
		open = open || (due && !s.waits(p, l, w))
		switch {
		case l != nil:
			mine = append(mine, w)
			s.r.sawChanges(ctx, l, w.Changes)
			p.box.post(func() { p.hint(ctx, l, w) })
			delete(s.free, w.Lane)
		case !due && !w.Waiting:
		case w.Owner == uuid.Nil || w.Owner == me || w.Expired:
			wanted = append(wanted, w)
			if _, ok := s.free[w.Lane]; !ok {
				s.free[w.Lane] = now
			}
			open = true
		default:
			held[w.Owner]++
			delete(s.free, w.Lane)
		}
	}
	if p.unfit.Load() {
		for _, w := range mine {
			s.leave(w.Lane)
		}
		return open, nil
	}
	others := s.others(p)
	live := len(others) + 1
	total := len(mine) + len(wanted)
	for _, n := range held {
		total += n
	}
	share := (total + live - 1) / live
	if err := s.take(ctx, p, wanted, share-len(mine), now); err != nil {
		return open, err
	}
	if surplus := len(mine) - share; surplus > 0 && len(others) > 0 {
		s.release(mine, others, held, surplus, total/live)
	}
	return open, nil
}

// others are the live relays but this one that serve a destination.
func (s *scout) others(p *pump) (ids []uuid.UUID) {
	for _, peer := range s.peers {
		if peer.ID != s.r.c.Store.Owner() && slices.Contains(peer.Serves, string(p.d.Name)) {
			ids = append(ids, peer.ID)
		}
	}
	return ids
}

// leave has a lane given back as soon as nothing of it is on its way.
func (s *scout) leave(lane int32) {
	if l := s.r.registry.get(lane); l != nil {
		l.pump.box.post(func() { l.leaving = true })
	}
}

// stuckLooks in which nothing moved, and the due rows of a lane are not waited for: they stand behind a parked head.
const stuckLooks = 20

// waits tells that the due rows of an owned lane cannot go out although everything works.
func (s *scout) waits(p *pump, l *lane, w outbox.Work) bool {
	if l == nil || w.Pending || p.busy.Load() || !p.calm() {
		delete(s.stuck, w.Lane)
		return false
	}
	s.stuck[w.Lane]++
	return s.stuck[w.Lane] > stuckLooks
}

// take leases wanted lanes up to the fair share, and any that nobody took for the length of a lease.
func (s *scout) take(ctx context.Context, p *pump, wanted []outbox.Work, room int, now time.Time) error {
	var lanes []int32
	var own []outbox.Own
	for _, w := range wanted {
		if room > 0 || now.Sub(s.free[w.Lane]) > s.r.c.Lease {
			lanes = append(lanes, w.Lane)
			if w.Owner == s.r.c.Store.Owner() {
				own = append(own, outbox.Own{Lane: w.Lane, Epoch: w.Epoch})
			}
			room--
		}
	}
	if len(lanes) == 0 {
		return nil
	}
	rob, err := s.mayRob(ctx, wanted)
	if err != nil {
		return err
	}
	start := s.r.since()
	leases, err := s.r.c.Store.Take(ctx, lanes, len(lanes), rob, own...)
	if err != nil {
		return err
	}
	for _, lease := range leases {
		delete(s.free, lease.Lane)
		l := newLane(p, lease, start+s.r.c.Lease)
		s.r.registry.add(l)
		p.busy.Store(true)
		p.box.post(func() { p.add(l) })
	}
	return nil
}

// release offers lanes beyond the fair share to peers that have less than theirs.
func (s *scout) release(mine []outbox.Work, others []uuid.UUID, held map[uuid.UUID]int, surplus, least int) {
	missing := 0
	for _, peer := range others {
		missing += max(least-held[peer], 0)
	}
	for _, w := range mine[:min(surplus, missing)] {
		s.leave(w.Lane)
	}
}

// parkUnknown parks rows of destinations that no file names, at most every second.
func (s *scout) parkUnknown(ctx context.Context, lanes []int32) error {
	if len(lanes) == 0 || time.Since(s.unknown) < time.Second {
		return nil
	}
	s.unknown = time.Now()
	n, err := s.r.c.Store.ParkUnknown(ctx, lanes, s.r.c.UnknownGrace)
	if n > 0 {
		s.r.c.Hooks.Unknown(n)
	}
	return err
}
