package relay

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/backend-skeleton/relay/messaging/transport"
)

// depth is how many calls of one pump may be open: one is claimed, one published, one recorded.
const depth = 3

// pump moves the rows of one destination.
type pump struct {
	r       *Relay
	d       *Destination
	broker  *broker
	breaker *breaker
	box     *mailbox
	rec     *recorder
	prefix  bool
	log     *slog.Logger

	lanes  []*lane
	next   int // where the next claim begins among the lanes
	taking []*lane
	due    map[*lane]bool // lanes with due deferred rows
	holds  []*flight
	ready  []*flight // may be sent now

	flights     map[uuid.UUID]*flight
	unresolved  map[uuid.UUID]*flight // outcome recorded, adapter not done
	places      int                   // of the broker, held
	bytes       int64
	calls       int // publish calls open
	lateCommits int
	probing     bool
	tickets     tickets // of the claim that is being made
	probes      int
	blockedAt   time.Time // no look for rows that waited too long before
	// payload bytes that the adapter is done with, since the broker was told last
	answeredBytes int64
	busy          atomic.Bool // something is on its way, or about to be
	paused        atomic.Pointer[pauseReason]
	unfit         atomic.Bool // open for longer than a lease while another relay serves the destination: that one has the lanes
	clean         atomic.Bool // nothing of this pump is on the wire while another goes solo

	draining   bool
	finishing  bool
	quiet      sync.Once
	drainedNow chan struct{}
	quietAt    time.Time // database trouble: no statement before
	troubles   int
	wakeAt     time.Time
	againAt    time.Time      // when lanes that had work are read again
	wg         sync.WaitGroup // publish calls and probes
}

func newPump(r *Relay, d *Destination, b *broker) *pump {
	p := &pump{
		r: r, d: d, broker: b, box: newMailbox(), due: map[*lane]bool{}, flights: map[uuid.UUID]*flight{},
		unresolved: map[uuid.UUID]*flight{}, drainedNow: make(chan struct{}), log: r.c.Logger.With("destination", string(d.Name)),
	}
	p.breaker = newBreaker(r.c.Breaker, func(s BreakerState, reason string) {
		r.c.Hooks.Breaker(b.name, d.Name, s, reason)
		p.box.wake()
	}, func(rows int) { r.c.Hooks.SlowStart(b.name, d.Name, rows) })
	p.rec = newRecorder(p)
	return p
}

// run until it is told to finish. When ctx ends it claims nothing more and says drained once everything that was sent
// has its outcome recorded; it goes on to take what the adapters say until then. hard ends it at once.
func (p *pump) run(ctx, hard context.Context) {
	var recording sync.WaitGroup
	recording.Go(func() { p.rec.run(hard) })
	defer recording.Wait()
	defer p.rec.close()
	defer p.wg.Wait()
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	stop := ctx.Done()
	prefixer, _ := p.broker.publisher.(transport.KeyPrefixer)
	for hard.Err() == nil {
		p.prefix = prefixer != nil && prefixer.KeyPrefix(p.d.Endpoint) // it may have to ask the broker first
		p.receive()
		if !p.draining && ctx.Err() != nil {
			stop = nil
			p.draining = true
			p.dropUnsent()
		}
		if p.draining && p.drained() {
			p.quiet.Do(func() { close(p.drainedNow) })
			if p.finishing {
				return
			}
		}
		for len(p.ready) > 0 {
			p.send()
		}
		if p.step(hard) {
			continue
		}
		p.busy.Store(p.atWork())
		if !p.draining {
			p.giveBack(hard)
		}
		timer.Reset(p.pause())
		select {
		case <-p.box.signal:
		case <-timer.C:
		case <-stop:
		case <-hard.Done():
		}
	}
}

// atWork tells whether this pump has rows in hand, or will look at some before long.
func (p *pump) atWork() bool {
	if len(p.flights) > 0 || len(p.taking) > 0 || len(p.due) > 0 {
		return true
	}
	now := time.Now()
	for _, l := range p.lanes {
		for _, k := range l.keys {
			if k.blocked && !k.lookAt.IsZero() && k.lookAt.Sub(now) <= lookPause {
				return true
			}
		}
	}
	return false
}

// finish lets run return once everything is recorded; the publishers are closed by then.
func (p *pump) finish() {
	p.box.post(func() {
		clear(p.unresolved)
		p.finishing = true
	})
}

// receive applies what others said.
func (p *pump) receive() {
	answers, calls := p.box.take()
	free := 0
	for i := range answers {
		a := &answers[i]
		if a.kind == verdict {
			p.onVerdict(a.f, a.r)
			continue
		}
		free += p.onResolved(a.f, a.r, a.kind == late)
	}
	p.freePlaces(free)
	p.broker.buffer(-p.answeredBytes)
	p.answeredBytes = 0
	for _, f := range calls {
		f()
	}
}

func (p *pump) freePlaces(n int) {
	p.places -= n
	p.broker.slots.release(n)
}

// step does one statement that is due, if any, and tells whether there may be more to do at once.
func (p *pump) step(ctx context.Context) bool {
	now := time.Now()
	p.wakeAt = time.Time{}
	if now.Before(p.quietAt) {
		p.wakeBy(p.quietAt)
		return false
	}
	if p.hold(ctx) {
		return true
	}
	if p.draining {
		return false
	}
	if p.takeOver(ctx) {
		return true
	}
	if !p.cleanLanes(ctx, crashed) {
		return false
	}
	may, only := p.turn(ctx, now)
	if !may {
		return false
	}
	if p.parkBlocked(ctx, now) {
		return true
	}
	rows, wait := p.allowed(ctx, now)
	if rows == 0 {
		p.wakeBy(now.Add(wait))
		return false
	}
	if only != nil {
		rows = 1
	}
	p.again(now)
	if rows > 0 && only == nil {
		return p.findProbeRow(ctx, now, rows)
	}
	return p.look(ctx, now, rows, only) || p.deferred(ctx, rows, only) || p.claim(ctx, now, rows, only)
}

// findProbeRow looks for the one row that finds out the rest, each time in another place first: the same row again and
// again would find out about itself alone.
func (p *pump) findProbeRow(ctx context.Context, now time.Time, rows int) bool {
	p.probes++
	p.next++
	for i := range 3 {
		var found bool
		switch (p.probes + i) % 3 {
		case 0:
			found = p.claim(ctx, now, rows, nil)
		case 1:
			found = p.look(ctx, now, rows, nil)
		default:
			found = p.deferred(ctx, rows, nil)
		}
		if found {
			return true
		}
	}
	return false
}

// recent is for how long after work a lane is read again without being asked to.
const recent = time.Second

// again reads lanes that had work a moment ago, as often as the scout would where looking for work cost nothing: it finds
// rows on their own, but what it may cost bounds how often. With many pumps the scout alone decides.
func (p *pump) again(now time.Time) {
	every := busyPoll * time.Duration(max(len(p.r.pumps)/directWake, 1))
	busy, due := false, !now.Before(p.againAt)
	for _, l := range p.lanes {
		if now.Sub(l.workAt) < recent {
			busy = true
			l.check = l.check || due
		}
	}
	if !busy {
		return
	}
	if due {
		p.againAt = now.Add(every)
	}
	p.wakeBy(p.againAt)
}

// wakeBy makes the next pause end at the given moment.
func (p *pump) wakeBy(at time.Time) {
	if p.wakeAt.IsZero() || at.Before(p.wakeAt) {
		p.wakeAt = at
	}
}

func (p *pump) pause() time.Duration {
	pause := p.r.c.Poll
	if !p.wakeAt.IsZero() {
		pause = min(pause, time.Until(p.wakeAt))
	}
	return max(pause, time.Millisecond)
}

// trouble with the database: the pump is quiet for a while, ever longer, and nothing of any row changes.
func (p *pump) trouble(operation string, err error) {
	p.troubles++
	p.quietAt = time.Now().Add(quiet(p.troubles))
	p.r.c.Hooks.Trouble(operation, err)
	p.r.database.failed(p, p.troubles, err)
}

func (p *pump) fine() {
	if p.troubles > 0 {
		p.troubles = 0
		p.r.database.works(p, true)
	}
}
