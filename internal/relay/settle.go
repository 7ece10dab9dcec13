package relay

import (
	"cmp"
	"slices"
	"time"

	"github.com/backend-skeleton/relay/internal/outbox"
	"github.com/backend-skeleton/relay/messaging"
)

// weakConfirmation is the reason of a breaker that opened because the broker proves less than the profile asks for.
const weakConfirmation = "WEAK_CONFIRMATION"

// onVerdict takes the outcome of a row.
func (p *pump) onVerdict(f *flight, r messaging.PublishResult) {
	f.result, f.end = r, p.d.dispose(f.row, r)
	f.row.Payload, f.row.Headers = nil, ""
	if f.sent {
		p.r.c.Hooks.Published(p.d.Name, p.broker.name, r)
	}
	p.charge(f)
	k := f.key
	if k == nil {
		p.conclude(f, f.end.delay)
		return
	}
	k.results = append(k.results, f)
	if len(k.results) == k.sent {
		p.settle(k)
	}
}

// charge tells the breakers.
func (p *pump) charge(f *flight) {
	b, own, r, t := p.broker.breaker, p.breaker, f.result, f.tickets
	defer p.giveTickets(&f.tickets) // what its answer did not settle
	code := ""
	if r.Failure != nil {
		code = r.Failure.Code
	}
	switch {
	case r.Completion == messaging.Confirmed && r.Evidence.Level < p.d.Confirmation:
		p.r.c.Hooks.Weak(p.d.Name, 1)
		b.success()
		own.open(weakConfirmation, t.own)
	case r.Completion == messaging.Confirmed:
		b.success()
		own.success()
	case f.end.breaker == destinationOpen:
		b.success() // it answered
		own.open(code, t.own)
	case f.end.breaker == destinationCount && r.Completion == messaging.Ambiguous:
		b.relapse(code, t.broker)
		own.failure(code, t.own)
	case f.end.breaker == destinationCount:
		b.success()
		own.failure(code, t.own)
	case f.end.breaker == destinationStuck:
		own.failure(code, t.own)
	case f.end.breaker == brokerOpen: // it says nothing about the destination
		b.open(code, t.broker)
	case f.end.breaker == brokerCount:
		b.failure(code, t.broker)
	}
}

// settle sees to a key when its whole call has its verdicts: what was confirmed is done; from the first row that was
// not, everything waits, in the table or as it was.
func (p *pump) settle(k *key) {
	results, queue := k.results, k.queue
	k.results, k.queue, k.sent, k.going = nil, nil, 0, false
	slices.SortFunc(results, func(a, b *flight) int { return cmp.Compare(a.row.Seq, b.row.Seq) })
	if slices.ContainsFunc(results, func(f *flight) bool { return !f.end.asItWas && !f.end.passed() }) {
		k.blocked = true // before the first of them is let go
	}
	broken := false // a row before was not stored
	p.countHoles(results)
	for _, f := range results {
		switch {
		case f.end.passed():
			p.conclude(f, f.end.delay)
		case f.end.asItWas:
			p.conclude(f, 0)
			broken = true
		default:
			delay := f.end.delay
			if broken { // only the head of a key has a time of its own
				delay = -1
			}
			p.conclude(f, delay)
			broken = true
		}
	}
	switch {
	case broken:
		p.stop(k, queue)
	case len(queue) > 0:
		p.goOn(k, queue)
	}
	k.forget()
}

// countHoles tells of rows that were stored although an earlier one of their key and call was refused: the adapter promised
// a prefix, and what the broker did broke it.
func (p *pump) countHoles(results []*flight) {
	refused, holes := false, 0
	for _, f := range results {
		switch {
		case f.result.Completion == messaging.Rejected && !f.end.passed():
			refused = true
		case refused && f.result.Completion == messaging.Confirmed:
			holes++
		}
	}
	if holes > 0 {
		p.r.c.Hooks.Overtook(p.d.Name, holes)
	}
}

// goOn sends what waited behind a call that was confirmed: all of it where a prefix is kept, else the next row.
func (p *pump) goOn(k *key, queue []*flight) {
	n := 1
	if p.prefix {
		n = len(queue)
	}
	for _, f := range queue[:n] {
		p.start(k, f)
	}
	k.queue = queue[n:]
}

// stop lets what waited behind a broken call wait in the table, or stay as it was.
func (p *pump) stop(k *key, queue []*flight) {
	for _, f := range queue {
		p.asItWas(f)
	}
	if k.blocked && k.unrecorded == 0 {
		k.lookAt = time.Now().Add(lookPause)
	}
}

// conclude writes the outcome of a row, or leaves it as it was.
func (p *pump) conclude(f *flight, delay time.Duration) {
	if f.end.asItWas {
		p.asItWas(f)
		return
	}
	if f.key != nil {
		f.key.unrecorded++
		if f.end.state == outbox.Published {
			f.lane.publishedKey(f.key.name, f.row.Seq)
		}
	}
	o := outbox.Outcome{
		Lane: f.lane.lease.Lane, Epoch: f.lane.lease.Epoch, ID: f.row.MessageID, Version: f.row.Version, FromIDs: f.byID(),
		Status: f.end.state, Attempt: f.end.attempt, Ambiguous: f.end.ambiguous, Delay: delay, Skip: f.end.skip, Result: f.result,
	}
	p.rec.put(entry{f: f, o: o})
}

// asItWas lets go of a row that was not sent; it is read again later. Where its key is blocked it waits in the table instead:
// rows behind it may do so already, or will, and the first of them would be the head.
func (p *pump) asItWas(f *flight) {
	if k := f.key; k != nil && k.blocked && !f.byID() && !f.lane.gone {
		p.setAside(f)
		return
	}
	f.lane.mustDry, f.lane.check = true, true
	if f.byID() && f.key == nil && !f.lane.gone {
		p.due[f.lane] = true
	}
	if k := f.key; k != nil && k.blocked && k.lookAt.IsZero() {
		k.lookAt = time.Now().Add(lookPause)
	}
	p.close(f)
}

// drop lets go of rows that were claimed and not sent.
func (p *pump) drop(fs []*flight) {
	for _, f := range fs {
		if k := f.key; k != nil && f.counted {
			f.counted = false
			k.sent--
		}
		p.asItWas(f)
		if f.key != nil {
			f.key.forget()
		}
	}
}

// recorded is told when outcomes were committed.
func (p *pump) recorded(entries []entry) {
	now := time.Now()
	for i := range entries {
		f, o := entries[i].f, &entries[i].o
		if entries[i].late {
			p.recordedLate(f)
			continue
		}
		p.close(f)
		k := f.key
		if k == nil {
			continue
		}
		k.unrecorded--
		switch {
		case o.Status == outbox.Published || (o.Status == outbox.Parked && o.Skip):
			if k.blocked && k.unrecorded == 0 && (k.lookAt.IsZero() || !k.lookAt.After(now)) {
				k.lookAt = now // the next one of the key
			}
		case o.Delay >= 0 && o.Status != outbox.Parked:
			k.blocked, k.lookAt = true, now.Add(o.Delay)
		case k.lookAt.IsZero() || !k.lookAt.After(now):
			k.blocked, k.lookAt = true, now
		}
		k.forget()
	}
}

// onResolved is told when an adapter is done with a row. It gives the places that come free.
func (p *pump) onResolved(f *flight, r messaging.PublishResult, after bool) (free int) {
	f.resolved = true
	p.answeredBytes += f.onWire
	f.onWire = 0
	if f.place {
		f.place, free = false, 1
	}
	if !after {
		delete(p.unresolved, f.row.MessageID)
		return free
	}
	p.r.c.Hooks.LateAnswer(p.broker.name, r.Completion)
	if r.Completion == messaging.Confirmed {
		f.resolved = false // until that is in the table
		p.rec.put(entry{f: f, late: true, o: outbox.Outcome{ID: f.row.MessageID, Result: r}})
		return free
	}
	p.lookSoon(f)
	return free
}

// recordedLate is told when a late confirmation was committed.
func (p *pump) recordedLate(f *flight) {
	f.resolved = true
	p.lookSoon(f)
}

// lookSoon looks at the key of a row whose fate has become clear.
func (p *pump) lookSoon(f *flight) {
	delete(p.unresolved, f.row.MessageID)
	l := f.lane
	if l.gone { // it may have come back under another lease
		if l = p.r.registry.get(l.lease.Lane); l == nil {
			return
		}
	}
	if k := f.key; k != nil {
		k = l.key(k.name)
		k.blocked, k.lookAt = true, time.Now()
		return
	}
	p.due[l] = true
}

// close lets a row out of this process's hands.
func (p *pump) close(f *flight) {
	delete(p.flights, f.row.MessageID)
	p.giveTickets(&f.tickets)
	p.bytes -= f.bytes
	f.bytes = 0
	f.lane.closed(f)
	if f.lane.open == 0 {
		f.lane.check = true // at once while busy
	}
	switch {
	case f.sent && !f.resolved:
		p.unresolved[f.row.MessageID] = f
	case f.place:
		f.place = false
		p.freePlaces(1)
	}
}
