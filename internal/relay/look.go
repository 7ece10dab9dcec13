package relay

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/backend-skeleton/relay/internal/outbox"
)

// lookPause is how long a key is left alone that could not be sent although its head is due.
const lookPause = 100 * time.Millisecond

// untimelyPause is how long a redriven head is left alone before which other rows are PENDING. Those are set aside when
// they are read, and the first of them makes the key look again at once.
const untimelyPause = 500 * time.Millisecond

// setAside lets a PENDING row wait in the table as HELD.
func (p *pump) setAside(f *flight) {
	f.key.unrecorded++
	p.holds = append(p.holds, f)
}

// hold writes the rows that were set aside.
func (p *pump) hold(ctx context.Context) bool {
	if len(p.holds) == 0 {
		return false
	}
	holds := p.holds
	var ids []uuid.UUID
	var lanes []int32
	var epochs []int64
	seen := map[*lane]bool{}
	for _, f := range holds {
		ids = append(ids, f.row.MessageID)
		if !seen[f.lane] {
			seen[f.lane] = true
			lanes, epochs = append(lanes, f.lane.lease.Lane), append(epochs, f.lane.lease.Epoch)
		}
	}
	if _, err := p.r.c.Store.Hold(ctx, lanes, epochs, ids); err != nil {
		p.trouble("hold rows", err)
		return false
	}
	p.fine()
	p.holds = nil
	for _, f := range holds {
		p.close(f)
		k := f.key
		k.unrecorded--
		if k.blocked && (k.barrier == 0 || f.row.Seq < k.barrier) { // it may be the head
			k.lookAt = time.Now()
		}
		k.forget()
	}
	return true
}

// look sees to keys whose head may be due: it goes out, alone or with what waits behind it.
func (p *pump) look(ctx context.Context, now time.Time, rows int, only *lane) bool {
	if !p.d.Ordered || p.full() {
		return false
	}
	by := p.sendBy()
	var keys []outbox.Key
	byName := map[outbox.Key]*key{}
	for i := range p.lanes {
		l := p.lanes[(p.next+i)%len(p.lanes)]
		if !l.ready || l.leaving || l.gone || !l.validUntil(by) || l.crowded() || !p.mayClaim(l, only) {
			continue
		}
		for _, k := range l.keys {
			if k.lookable(now) {
				if len(keys) < 200 {
					id := outbox.Key{Lane: l.lease.Lane, Key: k.name}
					keys, byName[id] = append(keys, id), k
				}
			} else if k.blocked && !k.lookAt.IsZero() && now.Before(k.lookAt) {
				p.wakeBy(k.lookAt)
			}
		}
	}
	if len(keys) == 0 || !p.room() {
		return false
	}
	looks, err := p.r.c.Store.LookAtKeys(ctx, keys, p.d.Block)
	if err != nil {
		p.trouble("look at keys", err)
		return false
	}
	p.fine()
	var heads []outbox.Key
	for _, lk := range looks {
		k := byName[lk.Key]
		k.barrier = lk.Seq
		switch {
		case lk.Parked:
			k.lookAt = time.Time{} // until an operator does something about it
		case !lk.Waiting:
			k.blocked, k.lookAt = false, time.Time{}
			k.lane.check = true
			k.forget()
		case lk.Untimely:
			k.lookAt, k.lane.check = now.Add(untimelyPause), true
		case lk.Due > 0:
			k.lookAt = now.Add(lk.Due)
		case p.unresolved[lk.Head] != nil:
			k.lookAt = time.Time{} // until the adapter is done with it
		default:
			heads = append(heads, lk.Key)
		}
	}
	return len(heads) == 0 || p.claimRuns(ctx, heads, byName, rows, only != nil)
}

// fitWindows leaves out keys that a lane's window has no room for, and shortens the runs of the others to what every window
// takes: it names so many rows at most, and after crashes fewer.
func (p *pump) fitWindows(keys []outbox.Key, byName map[outbox.Key]*key, run int) (fit []outbox.Key, length int) {
	room := func(l *lane) int {
		if crashed(l) {
			return min(l.roomForIDs(), max(l.limit(p.r.c.Batch)-l.open, 1))
		}
		return l.roomForIDs()
	}
	of := map[*lane]int{}
	for _, k := range keys {
		if l := byName[k].lane; of[l] < room(l) {
			of[l]++
			fit = append(fit, k)
		}
	}
	for l, n := range of {
		run = min(run, room(l)/n)
	}
	return fit, run
}

// claimRuns takes heads that may go now, each with what waits behind it where the adapter keeps a prefix.
func (p *pump) claimRuns(ctx context.Context, keys []outbox.Key, byName map[outbox.Key]*key, rows int, solo bool) bool {
	run := 1
	if p.prefix && rows < 0 {
		run = runLength
	}
	if rows > 0 {
		keys = keys[:1]
	}
	keys, run = p.fitWindows(keys, byName, run)
	want := min(len(keys)*run, runLength)
	places := p.takePlaces(want)
	if places == 0 || !p.reserve(rows) {
		p.freePlaces(places)
		return false
	}
	run = max(places/len(keys), 1)
	keys = keys[:min(len(keys), places)]
	var claims []outbox.LaneClaim
	lanes := map[int32]*lane{}
	for _, k := range keys {
		l := byName[k].lane
		if lanes[k.Lane] == nil {
			lanes[k.Lane] = l
			claims = append(claims, outbox.LaneClaim{Step: l.step(), Open: l.openWindow(), Solo: solo})
		}
	}
	found, err := p.r.c.Store.ClaimRuns(ctx, string(p.d.Name), claims, keys, run, p.d.Block, max(maxDestinationBytes-p.bytes, 1)/int64(len(keys)))
	if err != nil {
		p.giveTickets(&p.tickets)
		p.freePlaces(places)
		mayHaveWindows(slices.Collect(maps.Values(lanes)))
		p.trouble("claim waiting rows", err)
		return false
	}
	p.fine()
	p.freePlaces(places - len(found))
	broken := map[outbox.Key]bool{}
	for i := range found {
		id := outbox.Key{Lane: found[i].Lane, Key: found[i].Key()}
		if broken[id] = broken[id] || p.inHand(found[i].MessageID); broken[id] { // nothing overtakes what has no answer yet
			p.freePlaces(1)
			continue
		}
		p.admit(lanes[found[i].Lane], nil, &found[i])
	}
	p.unused(rows)
	for _, k := range keys {
		if st := byName[k]; st.sent == 0 { // changed by others between the look and the claim
			st.lookAt = time.Now().Add(lookPause)
		}
	}
	return true
}
