package relay

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/backend-skeleton/relay/internal/outbox"
)

// runLength is the most rows of one key that a look claims, and the most ids in a lane's window.
const runLength = 500

// lookPause is how long a key is left alone that could not be sent although its head is due.
const lookPause = 100 * time.Millisecond

// full tells whether enough is open: more would only wait here instead of in the table.
func (p *pump) full() bool { return p.calls >= depth || p.bytes >= maxDestinationBytes }

// claim reads rows that were never offered to a broker.
func (p *pump) claim(ctx context.Context, now time.Time, rows int) bool {
	if p.full() {
		return false
	}
	lanes := p.readable(now)
	if len(lanes) == 0 {
		return false
	}
	want := len(lanes) * p.r.c.Batch
	if rows > 0 {
		want = rows
	}
	places := p.takePlaces(want)
	if places == 0 {
		return false
	}
	if !p.reserve(rows) {
		p.freePlaces(places)
		return false
	}
	lanes = lanes[:min(len(lanes), places)]
	claims := make([]outbox.LaneClaim, len(lanes))
	per := max(places/len(lanes), 1)
	for i, l := range lanes {
		claims[i] = p.laneClaim(l, now, min(per, l.limit(p.r.c.Batch)))
	}
	start := time.Now()
	found, err := p.r.c.Store.ClaimPending(ctx, string(p.d.Name), claims, max(maxDestinationBytes-p.bytes, 1)/int64(len(lanes)))
	if err != nil {
		p.unreserve(rows)
		p.freePlaces(places)
		p.trouble("claim", err)
		return false
	}
	p.fine()
	p.r.c.Hooks.Claimed(p.d.Name, len(found), time.Since(start))
	p.freePlaces(places - len(found))
	p.read(lanes, claims, found, now)
	p.unused(rows)
	return true
}

func (p *pump) takePlaces(want int) int {
	n := p.broker.slots.take(want, p.places, p.box.wake)
	p.places += n
	return n
}

// readable lanes, beginning with another one each time.
func (p *pump) readable(now time.Time) []*lane {
	var lanes []*lane
	n := len(p.lanes)
	by := p.sendBy()
	for i := range n {
		if l := p.lanes[(p.next+i)%n]; l.readable(now) && l.validUntil(by) {
			lanes = append(lanes, l)
		}
	}
	p.next++
	return lanes
}

// laneClaim says where to read a lane. A lane with nothing open is read from its low mark, and from 0 now and then:
// the partial index holds unpublished rows only, so that this is exact.
func (p *pump) laneClaim(l *lane, now time.Time, limit int) outbox.LaneClaim {
	c := outbox.LaneClaim{Lane: l.lease.Lane, Epoch: l.lease.Epoch, Limit: int32(limit), Open: l.openWindow(), Rewrite: l.window && l.open == 0}
	switch {
	case l.open > 0:
		c.Cursor = l.cursor
	case l.fromZero || now.Sub(l.zeroAt) >= p.r.c.Poll:
		c.Cursor = 0
	default:
		c.Cursor = l.low
	}
	c.Low = l.low
	return c
}

// read takes what a claim found into this process's hands.
func (p *pump) read(lanes []*lane, claims []outbox.LaneClaim, found []outbox.Row, now time.Time) {
	for i, l := range lanes {
		n := 0
		for n < len(found) && found[n].Lane == l.lease.Lane {
			n++
		}
		p.readLane(l, claims[i], found[:n], now)
		found = found[n:]
	}
}

func (p *pump) readLane(l *lane, c outbox.LaneClaim, rows []outbox.Row, now time.Time) {
	if l.open == 0 {
		l.dryAt, l.mustDry = now, false
		if c.Cursor == 0 {
			l.zeroAt, l.fromZero = now, false
		}
		switch {
		case len(rows) > 0:
			l.low = rows[0].Seq - 1
		case c.Cursor == 0:
			l.low = max(l.low, l.cursor)
		}
		l.cursor = l.low
	}
	l.check = len(rows) >= int(c.Limit)
	l.window = len(rows) > 0 || l.open > 0
	if len(rows) == 0 {
		return
	}
	l.workAt = now
	defer p.countLateCommits()
	l.cursor = max(l.cursor, rows[len(rows)-1].Seq)
	b := &batch{lo: rows[0].Seq, hi: rows[len(rows)-1].Seq}
	for i := range rows {
		p.admit(l, b, rows[i])
	}
	if b.left > 0 {
		l.batches = append(l.batches, b)
	}
}

// countLateCommits tells of rows that became visible behind a published one of their key: their writers overlapped.
func (p *pump) countLateCommits() {
	if p.lateCommits > 0 {
		p.r.c.Hooks.LateCommit(p.d.Name, p.lateCommits)
		p.lateCommits = 0
	}
}

// admit takes one claimed row: it may go now, or waits behind its key, or is set aside because the key is blocked.
func (p *pump) admit(l *lane, b *batch, row outbox.Row) {
	if p.flights[row.MessageID] != nil || p.unresolved[row.MessageID] != nil {
		p.freePlaces(1)
		return
	}
	f := &flight{row: row, lane: l, batch: b, bytes: row.Size(), place: true}
	p.flights[row.MessageID] = f
	p.bytes += f.bytes
	l.open++
	if b != nil {
		b.left++
	} else {
		l.ids[row.MessageID] = struct{}{}
		l.window = true
	}
	name := row.Key()
	if !p.d.Ordered || name == "" {
		p.ready = append(p.ready, f)
		return
	}
	k := l.key(name)
	f.key = k
	if row.Seq < l.last[name] && row.Attempts == 0 {
		p.lateCommits++
	}
	switch {
	case k.blocked && b != nil:
		p.setAside(f)
	case k.sent == 0 && len(k.queue) == 0:
		p.start(k, f)
	case p.prefix && len(k.queue) == 0 && !k.going:
		p.start(k, f)
	default:
		k.queue = append(k.queue, f)
	}
}

// start puts a row into the call that is being put together.
func (p *pump) start(k *key, f *flight) {
	k.sent++
	f.counted = true
	p.ready = append(p.ready, f)
}

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
		f.key.unrecorded--
		f.key.forget()
	}
	return true
}

// look sees to keys whose head may be due: it goes out, alone or with what waits behind it.
func (p *pump) look(ctx context.Context, now time.Time, rows int) bool {
	if !p.d.Ordered || p.full() {
		return false
	}
	by := p.sendBy()
	var keys []outbox.Key
	byName := map[outbox.Key]*key{}
	for _, l := range p.lanes {
		if !l.ready || l.leaving || l.gone || !l.validUntil(by) {
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
	if len(keys) == 0 {
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
		switch {
		case lk.Parked:
			k.lookAt = time.Time{} // until an operator does something about it
		case !lk.Waiting:
			k.blocked, k.lookAt = false, time.Time{}
			k.lane.check = true
			k.forget()
		case lk.Due > 0:
			k.lookAt = now.Add(lk.Due)
		case p.unresolved[lk.Head] != nil:
			k.lookAt = time.Time{} // until the adapter is done with it
		default:
			heads = append(heads, lk.Key)
		}
	}
	return len(heads) == 0 || p.claimRuns(ctx, heads, byName, rows)
}

// claimRuns takes heads that may go now, each with what waits behind it where the adapter keeps a prefix.
func (p *pump) claimRuns(ctx context.Context, keys []outbox.Key, byName map[outbox.Key]*key, rows int) bool {
	run := 1
	if p.prefix && rows < 0 {
		run = runLength
	}
	if rows > 0 {
		keys = keys[:1]
	}
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
			claims = append(claims, outbox.LaneClaim{Lane: l.lease.Lane, Epoch: l.lease.Epoch, Open: l.openWindow()})
		}
	}
	found, err := p.r.c.Store.ClaimRuns(ctx, string(p.d.Name), claims, keys, run, p.d.Block, max(maxDestinationBytes-p.bytes, 1))
	if err != nil {
		p.unreserve(rows)
		p.freePlaces(places)
		p.trouble("claim waiting rows", err)
		return false
	}
	p.fine()
	p.freePlaces(places - len(found))
	for i := range found {
		p.admit(lanes[found[i].Lane], nil, found[i])
	}
	p.unused(rows)
	for _, k := range keys {
		if st := byName[k]; st.sent == 0 { // changed by others between the look and the claim
			st.lookAt = time.Now().Add(lookPause)
		}
	}
	return true
}

// deferred sees to lanes with due rows: scheduled ones take their place, keys get a look, the rest goes out.
func (p *pump) deferred(ctx context.Context, rows int) bool {
	if len(p.due) == 0 || p.full() {
		return false
	}
	by := p.sendBy()
	var lanes []*lane
	var numbers []int32
	var epochs []int64
	for l := range p.due {
		if l.ready && !l.leaving && !l.gone && l.validUntil(by) {
			lanes, numbers, epochs = append(lanes, l), append(numbers, l.lease.Lane), append(epochs, l.lease.Epoch)
		}
	}
	if len(lanes) == 0 {
		return false
	}
	lowest, err := p.r.c.Store.ReleaseScheduled(ctx, numbers, epochs, 1000)
	if err != nil {
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
	return p.claimDeferred(ctx, lanes, rows) || len(lowest) > 0 || keys > 0
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
func (p *pump) claimDeferred(ctx context.Context, lanes []*lane, rows int) bool {
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
			Lane: l.lease.Lane, Epoch: l.lease.Epoch, Limit: int32(min(per, l.limit(p.r.c.Batch))), Open: l.openWindow(),
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
		p.unreserve(rows)
		p.freePlaces(places)
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
		p.admit(l, nil, found[i])
	}
	p.unused(rows)
	for i, l := range lanes {
		if got[l] < int(claims[i].Limit) {
			delete(p.due, l)
		}
	}
	return len(found) > 0
}
