package relay

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/backend-skeleton/relay/internal/outbox"
	"github.com/backend-skeleton/relay/internal/publish"
	"github.com/backend-skeleton/relay/messaging"
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
	busy        atomic.Bool // something is on its way, or about to be
	paused      atomic.Pointer[pauseReason]

	draining   bool
	finishing  bool
	quiet      sync.Once
	drainedNow chan struct{}
	quietAt    time.Time // database trouble: no statement before
	troubles   int
	wakeAt     time.Time
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
	})
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
	rows, wait := p.allowed(ctx, now)
	if rows == 0 {
		p.wakeBy(now.Add(wait))
		return false
	}
	return p.look(ctx, now, rows) || p.deferred(ctx, rows) || p.claim(ctx, now, rows)
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
}

func (p *pump) fine() { p.troubles = 0 }

// allowed says how many rows the breakers let through: any number (negative), one, or none for a while.
func (p *pump) allowed(ctx context.Context, now time.Time) (rows int, wait time.Duration) {
	if p.paused.Load() != nil {
		return 0, p.r.c.Poll
	}
	b, d := p.broker.breaker.permit(now), p.breaker.permit(now)
	switch {
	case b.wait > 0 || d.wait > 0:
		return 0, max(b.wait, d.wait)
	case b.probe || d.probe:
		p.probe(ctx, b.probe, d.probe)
		return 0, p.r.c.Breaker.OpenFor
	case b.rows < 0 && d.rows < 0:
		return -1, 0
	case p.calls > 0: // rows that were on their way when it opened
		return 0, p.r.c.Breaker.OpenFor
	default:
		return 1, 0
	}
}

// pauseReason is why and since when someone paused a destination.
type pauseReason struct {
	text  string
	since time.Time
}

// pauseFor pauses the destination, or lets it go on. What is on its way is finished.
func (p *pump) pauseFor(reason string, stop bool) {
	switch now := p.paused.Load(); {
	case stop && now == nil:
		p.paused.Store(&pauseReason{text: reason, since: time.Now()})
	case !stop && now != nil:
		p.paused.Store(nil)
		p.box.wake()
	}
}

// reserve takes the one row that half-open breakers allow.
func (p *pump) reserve(rows int) bool {
	if rows < 0 {
		return true
	}
	if !p.broker.breaker.reserve() {
		return false
	}
	if !p.breaker.reserve() {
		p.broker.breaker.release()
		return false
	}
	return true
}

func (p *pump) unreserve(rows int) {
	if rows > 0 {
		p.broker.breaker.release()
		p.breaker.release()
	}
}

// unused gives the one row back that half-open breakers allowed, if the claim found none to send.
func (p *pump) unused(rows int) {
	if len(p.ready) == 0 {
		p.unreserve(rows)
	}
}

// probe asks the broker something harmless before a row finds out the rest.
func (p *pump) probe(ctx context.Context, forBroker, forDestination bool) {
	if p.probing || (forBroker && !p.broker.breaker.reserve()) {
		return
	}
	if forDestination && !p.breaker.reserve() {
		if forBroker {
			p.broker.breaker.release()
		}
		return
	}
	p.probing = true
	p.wg.Go(func() {
		limited, cancel := context.WithTimeout(ctx, max(p.d.Timeout, time.Second))
		defer cancel()
		reason := probeReason(p.broker.adapter.Inspect(limited, []transport.Endpoint{p.d.Endpoint}))
		p.box.post(func() {
			p.probing = false
			for _, b := range []struct {
				of  *breaker
				use bool
			}{{p.broker.breaker, forBroker}, {p.breaker, forDestination}} {
				switch {
				case !b.use:
				case reason == "":
					b.of.answered()
				default:
					b.of.open(reason)
				}
			}
		})
	})
}

// send hands the rows that may go now to the adapter, in one call.
func (p *pump) send() {
	ready := p.ready
	p.ready = nil
	if p.draining {
		p.drop(ready)
		return
	}
	deadline := p.sendBy()
	sent := make([]*flight, 0, len(ready))
	messages := make([]transport.Message, 0, len(ready))
	broken := map[*key]bool{}
	for _, f := range ready {
		switch {
		case f.lane.gone || !f.lane.validUntil(deadline): // it could be on its way when the lease ends
			p.refuseUnsent(f, messaging.NewFailure(messaging.CategoryTransientInfrastructure, messaging.CodeLeaseEnded, "the lease ends too soon"))
			broken[f.key] = true
			continue
		case f.key != nil && broken[f.key]:
			p.refuseUnsent(f, behind())
			continue
		}
		m, failure := p.render(f)
		if failure != nil {
			p.refuseUnsent(f, failure)
			broken[f.key] = p.d.Block
			continue
		}
		f.sent = true
		if f.key != nil {
			f.key.going = true
		}
		sent, messages = append(sent, f), append(messages, m)
	}
	if len(sent) == 0 {
		return
	}
	p.calls++
	p.wg.Go(func() {
		publish.Do(p.r.publishing, p.broker.publisher, publish.Call{
			To: p.d.Endpoint, Messages: messages, Timeout: p.d.Timeout,
			Verdict: func(i int, r messaging.PublishResult) { p.box.answer(answer{f: sent[i], r: r, kind: verdict}) },
			Resolved: func(i int, r messaging.PublishResult, after bool) {
				kind := resolved
				if after {
					kind = late
				}
				p.box.answer(answer{f: sent[i], r: r, kind: kind})
			},
		})
		p.box.post(func() { p.calls-- })
	})
}

// sendBy is until when a lease must be valid for a publish that begins now: its verdict must be in by then.
func (p *pump) sendBy() time.Duration { return p.r.since() + p.d.Timeout + publish.Grace }

func (p *pump) render(f *flight) (transport.Message, *messaging.Failure) {
	if failure := p.d.refuse(&f.row); failure != nil {
		return transport.Message{}, failure
	}
	return message(&f.row)
}

func behind() *messaging.Failure {
	return messaging.NewFailure(messaging.CategoryTransientInfrastructure, messaging.CodePredecessorNotStored, "an earlier row of the key was not sent")
}

// refuseUnsent gives a row its verdict without sending it.
func (p *pump) refuseUnsent(f *flight, failure *messaging.Failure) {
	f.resolved = true
	p.onVerdict(f, notSent(failure))
}

// dropUnsent lets go of everything that was claimed and not sent: it stays as it was.
func (p *pump) dropUnsent() {
	p.drop(p.ready)
	p.ready = nil
	for _, l := range p.lanes {
		for _, k := range l.keys {
			queue := k.queue
			k.queue = nil
			p.drop(queue)
		}
	}
}

// drained tells whether nothing is on its way any more. A row that the adapter has not resolved does not count: its
// outcome is recorded, and closing the publisher ends it.
func (p *pump) drained() bool {
	return len(p.flights) == 0 && len(p.holds) == 0 && p.calls == 0
}

// giveBack frees lanes that another relay wants, or that have had no work for the length of a lease.
func (p *pump) giveBack(ctx context.Context) {
	now := time.Now()
	var lanes []int32
	var epochs []int64
	var going []*lane
	for _, l := range p.lanes {
		unwanted := l.leaving || (now.Sub(l.workAt) > p.r.c.Lease && !l.check)
		if !unwanted || !l.ready || l.gone || !l.idle() || p.unresolvedIn(l) {
			continue
		}
		lanes, epochs, going = append(lanes, l.lease.Lane), append(epochs, l.lease.Epoch), append(going, l)
	}
	if len(going) == 0 {
		return
	}
	if err := p.r.c.Store.GiveBack(ctx, lanes, epochs); err != nil {
		p.trouble("give back lanes", err)
		return
	}
	for _, l := range going {
		p.remove(l)
	}
}

func (p *pump) unresolvedIn(l *lane) bool {
	for _, f := range p.unresolved {
		if f.lane == l {
			return true
		}
	}
	return false
}

// add takes a lane that the scout leased.
func (p *pump) add(l *lane) {
	p.taking = append(p.taking, l)
	p.lanes = append(p.lanes, l)
	p.r.c.Hooks.Lanes(p.d.Name, len(p.lanes))
}

// remove forgets a lane: lost, or given back. What is on its way ends by itself; what was not sent is let go.
func (p *pump) remove(l *lane) {
	if l.gone {
		return
	}
	l.gone = true
	p.r.registry.remove(l)
	p.lanes = slices.DeleteFunc(p.lanes, func(o *lane) bool { return o == l })
	p.taking = slices.DeleteFunc(p.taking, func(o *lane) bool { return o == l })
	delete(p.due, l)
	for _, k := range l.keys {
		queue := k.queue
		k.queue = nil
		p.drop(queue)
	}
	p.holds = slices.DeleteFunc(p.holds, func(f *flight) bool {
		if f.lane == l {
			p.close(f)
			return true
		}
		return false
	})
	p.r.c.Hooks.Lanes(p.d.Name, len(p.lanes))
}

// takeOver makes lanes ready that were just taken.
func (p *pump) takeOver(ctx context.Context) bool {
	if len(p.taking) == 0 {
		return false
	}
	l := p.taking[0]
	if l.lease.OpenWindow {
		rows, crashes, err := p.r.c.Store.TakeOver(ctx, l.lease, p.d.Ordered)
		if err != nil {
			if errors.Is(err, outbox.ErrLeaseLost) {
				p.remove(l)
				return true
			}
			p.trouble("take over a window", err)
			return false
		}
		l.lease.OpenWindow, l.lease.Crashes = false, max(crashes, 0)
		p.r.c.Hooks.TakenOver(p.d.Name, rows)
		p.due[l] = true
	}
	if !p.rebuild(ctx, []*lane{l}) {
		return false
	}
	p.taking = p.taking[1:]
	l.ready = true
	return true
}

// rebuild reads the blocked keys of lanes from the table.
func (p *pump) rebuild(ctx context.Context, lanes []*lane) bool {
	if !p.d.Ordered {
		return true
	}
	byNumber := map[int32]*lane{}
	var numbers []int32
	for _, l := range lanes {
		byNumber[l.lease.Lane] = l
		numbers = append(numbers, l.lease.Lane)
	}
	keys, err := p.r.c.Store.BlockedKeys(ctx, numbers, p.d.Block)
	if err != nil {
		p.trouble("read blocked keys", err)
		return false
	}
	p.fine()
	now := time.Now()
	for _, k := range keys {
		if l := byNumber[k.Lane]; l != nil {
			st := l.key(k.Key)
			st.blocked, st.lookAt = true, now
		}
	}
	return true
}

// changed is told when others wrote to a lane's rows, or when its waiting rows are not known here.
func (p *pump) changed(ctx context.Context, l *lane) {
	if !l.gone && l.ready {
		now := time.Now()
		for _, k := range l.keys { // a skipped head is not among the blocked keys any more
			if k.blocked {
				k.lookAt = now
			}
		}
		p.rebuild(ctx, []*lane{l})
	}
}

// hint of the scout about a lane of this pump.
func (p *pump) hint(ctx context.Context, l *lane, w outbox.Work) {
	if l.gone {
		return
	}
	l.workAt = time.Now()
	if w.Pending {
		l.fromZero = l.fromZero || (l.open == 0 && !l.check) // it holds a row that was not seen from the low mark
		l.check = true
	}
	if (w.Due <= 0 || (w.Waiting && !p.d.Ordered)) && l.workAt.Sub(l.dueAt) > lookPause {
		l.dueAt = l.workAt
		p.due[l] = true
	}
	if w.Waiting && p.d.Ordered && !l.knowsBlocked() && l.open == 0 {
		p.changed(ctx, l)
	}
}

func (l *lane) knowsBlocked() bool {
	for _, k := range l.keys {
		if k.blocked {
			return true
		}
	}
	return false
}

// checkAll is told of a wake-up: every lane may have rows.
func (p *pump) checkAll() {
	for _, l := range p.lanes {
		l.check = true
	}
}
