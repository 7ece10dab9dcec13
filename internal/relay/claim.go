package relay

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/backend-skeleton/relay/internal/outbox"
)

// runLength is the most rows of one key that a look claims, and the most ids in a lane's window.
const runLength = 500

// full tells whether enough is open: more would only wait here instead of in the table.
func (p *pump) full() bool {
	return p.calls >= depth || p.bytes >= maxDestinationBytes || p.rec.behind()
}

// claim reads rows that were never offered to a broker.
func (p *pump) claim(ctx context.Context, now time.Time, rows int, only *lane) bool {
	if p.full() {
		return false
	}
	lanes := p.readable(now, only)
	if len(lanes) == 0 {
		return false
	}
	// Half of the broker's places, so that the next claim need not wait until this one is published.
	want := min(len(lanes)*p.r.c.Batch, max(p.broker.slots.share/2, 1))
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
	slices.SortFunc(lanes, func(a, b *lane) int { return cmp.Compare(a.lease.Lane, b.lease.Lane) }) // as they are locked
	claims := make([]outbox.LaneClaim, len(lanes))
	per := max(places/len(lanes), 1)
	for i, l := range lanes {
		claims[i] = p.laneClaim(l, now, min(per, l.limit(p.r.c.Batch)))
		claims[i].Solo = only != nil
	}
	start := time.Now()
	found, err := p.r.c.Store.ClaimPending(ctx, string(p.d.Name), claims, max(maxDestinationBytes-p.bytes, 1)/int64(len(lanes)))
	if err != nil {
		p.giveTickets(&p.tickets)
		p.freePlaces(places)
		mayHaveWindows(lanes)
		p.trouble("claim", err)
		return false
	}
	p.fine()
	p.r.c.Hooks.Claimed(p.d.Name, len(found), time.Since(start))
	p.freePlaces(places - len(found))
	if !p.heed(ctx, lanes, claims) { // they are in no hand yet, and read again
		p.freePlaces(len(found))
		p.unused(rows)
		mayHaveWindows(lanes)
		return false
	}
	p.read(lanes, claims, found, now)
	p.unused(rows)
	return true
}

// heed reads the blocked keys of lanes anew that others have changed: they may have parked a row that was never in hand
// here, and what stands behind it was just read.
func (p *pump) heed(ctx context.Context, lanes []*lane, claims []outbox.LaneClaim) bool {
	for i, l := range lanes {
		if c := claims[i].Changes; c != l.heeded {
			if !p.changed(ctx, l) {
				return false
			}
			l.heeded = c
		}
	}
	return true
}

// mayHaveWindows notes lanes of a claim without an answer: it may have been written, or will be.
func mayHaveWindows(lanes []*lane) {
	for _, l := range lanes {
		l.window = true
	}
}

func (p *pump) takePlaces(want int) int {
	want = p.breaker.room(p.broker.breaker.room(want, len(p.flights)), len(p.flights))
	n := p.broker.slots.take(want, p.places, p.box)
	if n == 0 && want > 0 { // it is woken sooner if places come free
		p.wakeBy(time.Now().Add(standing + standing/4))
	}
	p.places += n
	return n
}

// room tells whether a row could have a place; where not, the pump is woken when one comes free.
func (p *pump) room() bool {
	n := p.takePlaces(1)
	p.freePlaces(n)
	return n > 0
}

// readable lanes, beginning with another one each time.
func (p *pump) readable(now time.Time, only *lane) []*lane {
	var lanes []*lane
	n := len(p.lanes)
	by := p.sendBy()
	for i := range n {
		if l := p.lanes[(p.next+i)%n]; l.readable(now) && l.validUntil(by) && p.mayClaim(l, only) {
			lanes = append(lanes, l)
		}
	}
	p.next++
	return lanes
}

// zeroFactor keeps reading from 0 a small part of the time: an old snapshot may leave a million dead entries there.
const zeroFactor = 50

// laneClaim says where to read a lane. A lane with nothing open is read from its low mark, and from 0 now and then:
// the partial index holds unpublished rows only, so that this is exact.
func (p *pump) laneClaim(l *lane, now time.Time, limit int) outbox.LaneClaim {
	c := outbox.LaneClaim{Step: l.step(), Limit: int32(limit), Open: l.openWindow(), Rewrite: l.window && l.open == 0, Changes: l.heeded}
	switch {
	case l.open > 0 || l.past:
		c.Cursor = l.cursor
	case l.fromZero || now.Sub(l.zeroAt) >= max(p.r.c.Poll, zeroFactor*l.zeroCost):
		c.Cursor = 0
	default:
		c.Cursor = l.low
	}
	c.Low = l.low
	if p.d.Ordered {
		c.InOrder, c.Floor, c.InHand = true, l.floor.from(l.low, now), append(l.pending(), l.stuck...)
	}
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
			l.zeroAt, l.zeroCost, l.fromZero = now, time.Since(now), false
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
	l.past = false
	l.window = len(rows) > 0 || l.open > 0
	if c.InOrder {
		l.floor.looked(c.Floor, rows, now, time.Since(now))
	}
	if len(rows) == 0 {
		return
	}
	l.workAt = now
	defer p.countLateCommits()
	l.cursor = max(l.cursor, rows[len(rows)-1].Seq)
	b := &batch{lo: rows[0].Seq, hi: rows[len(rows)-1].Seq}
	for i := range rows {
		p.admit(l, b, &rows[i])
	}
	if b.left > 0 {
		l.batches = append(l.batches, b)
	}
	l.past = b.left == 0 && l.check
}

// countLateCommits tells of rows that became visible behind a published one of their key: their writers overlapped.
func (p *pump) countLateCommits() {
	if p.lateCommits > 0 {
		p.r.c.Hooks.LateCommit(p.d.Name, p.lateCommits)
		p.lateCommits = 0
	}
}

// inHand tells of a row that this process works on already, or whose answer is open.
func (p *pump) inHand(id uuid.UUID) bool { return p.flights[id] != nil || p.unresolved[id] != nil }

// admit takes one claimed row: it may go now, or waits behind its key, or is set aside because the key is blocked.
func (p *pump) admit(l *lane, b *batch, row *outbox.Row) {
	if p.inHand(row.MessageID) {
		p.freePlaces(1)
		return
	}
	f := &flight{row: row, lane: l, batch: b, bytes: row.Size(), place: true}
	p.flights[row.MessageID] = f
	p.bytes += f.bytes
	l.open++
	if b != nil {
		b.left++
		b.seqs = append(b.seqs, row.Seq)
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
