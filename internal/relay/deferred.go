package relay

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/backend-skeleton/relay/internal/outbox"
)

// deferred sees to lanes with due rows: scheduled ones take their place, keys get a look, the rest goes out.
func (p *pump) deferred(ctx context.Context, rows int, only *lane) bool {
	if len(p.due) == 0 || p.full() {
		return false
	}
	by := p.sendBy()
	var lanes []*lane
	var numbers []int32
	var epochs []int64
	for l := range p.due {
		if l.ready && !l.leaving && !l.gone && l.validUntil(by) && !l.crowded() && p.mayClaim(l, only) {
			lanes, numbers, epochs = append(lanes, l), append(numbers, l.lease.Lane), append(epochs, l.lease.Epoch)
		}
	}
	if len(lanes) == 0 || !p.room() {
		return false
	}
	lowest, err := p.r.c.Store.ReleaseScheduled(ctx, numbers, epochs, 1000)
	if err != nil {
		for _, l := range lanes { // it may have been done: they stand before what was read
			l.low, l.fromZero, l.mustDry = 0, true, true
		}
		p.trouble("release scheduled rows", err)
		return false
	}
	for _, l := range lanes {
		if seq, ok := lowest[l.lease.Lane]; ok {
			l.low, l.check, l.mustDry = min(l.low, seq-1), true, true
		}
	}
	keys := 0
	if p.d.Ordered {
		if keys, err = p.dueKeys(ctx, numbers, lanes); err != nil {
			p.trouble("read due keys", err)
			return false
		}
	}
	return p.claimDeferred(ctx, lanes, rows, only != nil) || len(lowest) > 0 || keys > 0
}

// dueKeys marks keys of which some row is due, and gives their number.
func (p *pump) dueKeys(ctx context.Context, numbers []int32, lanes []*lane) (int, error) {
	keys, err := p.r.c.Store.DueKeys(ctx, numbers)
	now := time.Now()
	for _, k := range keys {
		for _, l := range lanes {
			if l.lease.Lane == k.Lane {
				st := l.key(k.Key)
				st.blocked = true
				if st.lookAt.IsZero() || now.Before(st.lookAt) {
					st.lookAt = now
				}
			}
		}
	}
	return len(keys), err
}

// claimDeferred takes due rows that no key holds back.
func (p *pump) claimDeferred(ctx context.Context, lanes []*lane, rows int, solo bool) bool {
	want := min(len(lanes)*p.r.c.Batch, runLength)
	if rows > 0 {
		want = 1
	}
	places := p.takePlaces(want)
	if places == 0 || !p.reserve(rows) {
		p.freePlaces(places)
		return false
	}
	lanes = lanes[:min(len(lanes), places)]
	per := max(places/(2*len(lanes)), 1) // there are two kinds of deferred rows
	var claims []outbox.LaneClaim
	byNumber := map[int32]*lane{}
	for _, l := range lanes {
		byNumber[l.lease.Lane] = l
		claims = append(claims, outbox.LaneClaim{
			Step: l.step(), Limit: int32(min(per, l.limit(p.r.c.Batch), l.roomForIDs()/2)), Open: l.openWindow(), Solo: solo,
		})
	}
	skip := make([]uuid.UUID, 0, len(p.unresolved)+len(p.flights))
	for id := range p.unresolved {
		skip = append(skip, id)
	}
	for id, f := range p.flights {
		if f.byID() {
			skip = append(skip, id)
		}
	}
	found, err := p.r.c.Store.ClaimDeferred(ctx, string(p.d.Name), claims, p.d.Ordered, skip, max(maxDestinationBytes-p.bytes, 1)/int64(len(lanes)))
	if err != nil {
		p.giveTickets(&p.tickets)
		p.freePlaces(places)
		mayHaveWindows(lanes)
		p.trouble("claim deferred rows", err)
		return false
	}
	p.fine()
	extra := len(found) - places // the two kinds may give more than was asked for
	p.places += max(extra, 0)
	p.freePlaces(max(-extra, 0))
	p.broker.slots.add(max(extra, 0))
	got := map[*lane]int{}
	for i := range found {
		l := byNumber[found[i].Lane]
		got[l]++
		p.admit(l, nil, &found[i])
	}
	p.unused(rows)
	for i, l := range lanes {
		if got[l] < int(claims[i].Limit) {
			delete(p.due, l)
		}
	}
	return len(found) > 0
}
