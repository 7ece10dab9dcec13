package relay

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/backend-skeleton/relay/internal/outbox"
)

// giveBack frees lanes that another relay wants, or that have had no work for the length of a lease.
func (p *pump) giveBack(ctx context.Context) {
	now := time.Now()
	var steps []outbox.Step
	var going []*lane
	for _, l := range p.lanes {
		unwanted := l.leaving || (now.Sub(l.workAt) > p.r.c.Lease && !l.check)
		if !unwanted || !l.ready || l.gone || !l.idle() || p.unresolvedIn(l) {
			continue
		}
		steps, going = append(steps, l.step()), append(going, l)
	}
	if len(going) == 0 {
		return
	}
	unchanged, err := p.r.c.Store.GiveBack(ctx, steps)
	if err != nil {
		p.trouble("give back lanes", err)
		return
	}
	for _, u := range unchanged {
		p.r.odd("give back lanes", u)
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
		rows, crashes, err := p.r.c.Store.TakeOver(ctx, l.lease, p.d.Ordered, !p.d.Block, p.d.Attempts)
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
	n := 1
	for n < len(p.taking) && !p.taking[n].lease.OpenWindow {
		n++
	}
	taken := p.taking[:n]
	if !p.rebuild(ctx, taken) {
		return false
	}
	for _, l := range taken {
		l.ready = true
	}
	p.taking = p.taking[n:]
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

// changed is told when others wrote to a lane's rows, or when its waiting rows are not known here. It tells whether the
// blocked keys are known now.
func (p *pump) changed(ctx context.Context, l *lane) bool {
	if l.gone || !l.ready {
		return true // they are read when it becomes ready
	}
	now := time.Now()
	for _, k := range l.keys { // a skipped head is not among the blocked keys any more
		if k.blocked {
			k.lookAt = now
		}
	}
	l.lookedAt = now
	if p.rebuild(ctx, []*lane{l}) {
		return true
	}
	l.changes.Store(-1) // the scout tells it again
	return false
}

// lookAnyway is how often the blocked keys of a lane with waiting rows are read anew although nobody told of a change:
// people edit rows by hand.
const lookAnyway = 5 * time.Minute

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
	if w.Waiting && p.d.Ordered && ((!l.knowsBlocked() && l.open == 0) || l.workAt.Sub(l.lookedAt) > lookAnyway) {
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
