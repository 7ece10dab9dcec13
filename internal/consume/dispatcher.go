package consume

import (
	"context"
	"slices"
	"time"

	"github.com/backend-skeleton/relay/messaging"
	"github.com/backend-skeleton/relay/messaging/transport"
)

// dispatch owns the consumer's state until the end.
func (k *Consumer) dispatch() {
	<-k.begunOrQuit()
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-k.quit:
			return
		case <-k.box.signal:
		case <-tick.C:
			k.giveUpSettlements(time.Now())
		}
		for _, e := range k.box.take() {
			switch e.kind {
			case doCall:
				e.do()
			case delivered:
				k.receive(e.item)
			case returned:
				k.returned(e.job)
			case settlementAnswered:
				k.answered(e.item, e.result)
			}
		}
		k.begin()
		k.handOn()
		k.publishStatus()
		k.tellDrained()
	}
}

// begunOrQuit closes when the subscription stands: an adapter may deliver before Subscribe has returned.
func (k *Consumer) begunOrQuit() <-chan struct{} {
	either := make(chan struct{})
	go func() {
		defer close(either)
		select {
		case <-k.begun:
		case <-k.quit:
		}
	}()
	return either
}

// assign takes a unit.
func (k *Consumer) assign(id transport.Unit) {
	if k.units[id] != nil {
		return
	}
	ctx, cancel := context.WithCancelCause(k.c.Handling(k.living))
	u := &unit{Unit: id, ctx: ctx, cancel: cancel, lanes: map[string]*lane{}, pauses: reasons{}}
	k.units[id] = u
	k.steer(u)
}

// receive puts a delivery into its ordering unit.
func (k *Consumer) receive(i *item) {
	u := k.units[i.d.Unit]
	if u == nil || u.leaving || k.draining { // nobody's any more: it comes again elsewhere
		return
	}
	k.c.Hooks.delivered(i.d.Redelivered || i.d.Failed > 0)
	i.u, i.l = u, k.laneOf(u, i)
	k.count(i)
	i.l.queue.push(i)
	k.wake(i.l)
	k.steer(u)
}

// count adds a delivery to what waits.
func (k *Consumer) count(i *item) {
	i.counted = true
	i.u.waiting++
	k.waiting++
	k.bytes += i.size()
}

// uncount takes it out.
func (k *Consumer) uncount(i *item) {
	if !i.counted {
		return
	}
	i.counted = false
	i.u.waiting--
	k.waiting--
	k.bytes -= i.size()
}

// laneOf finds the ordering unit of a delivery.
func (k *Consumer) laneOf(u *unit, i *item) *lane {
	if k.one != nil {
		return k.one
	}
	key := ""
	if k.byKey() {
		key = orderingKey(&i.d.Message)
	}
	l := u.lanes[key]
	if l == nil {
		l = &lane{u: u, key: key}
		u.lanes[key] = l
	}
	return l
}

// byKey tells whether the keys of a unit run beside each other.
func (k *Consumer) byKey() bool { return k.c.Ordering == messaging.OrderingKey && k.c.PerUnit > 1 }

// exclusive tells whether one handler at a time works on a lane. Where nothing is ordered, and for messages without key,
// there is nothing to keep.
func (k *Consumer) exclusive(l *lane) bool {
	return k.c.Ordering > messaging.OrderingNone && (!k.byKey() || l.key != "")
}

// orderingKey is what orders a message: its header, or else the record's key.
func orderingKey(m *transport.Message) string {
	for _, h := range m.Header {
		if h.Name == transport.HeaderOrderingKey {
			return string(h.Value)
		}
	}
	return string(m.Key)
}

// wake puts a lane among those that may go on.
func (k *Consumer) wake(l *lane) {
	if !l.ready && l.queue.len() > 0 {
		l.ready = true
		k.ready.push(l)
	}
}

// begin starts handlers as far as the bounds allow, lane by lane in turns.
func (k *Consumer) begin() {
	if k.draining || k.blocked > 0 || k.pauses.stops() {
		return
	}
	var stay []*lane
	for k.ready.len() > 0 && k.running < k.c.Concurrency {
		l := k.ready.pop()
		switch {
		case l.queue.len() == 0:
			l.ready = false
			k.tidy(l)
			continue
		case l.held > 0 || l.running > 0 && k.exclusive(l):
			l.ready = false // whoever lets it go wakes it
			continue
		}
		u := l.queue.all()[0].u
		if u.leaving {
			l.ready = false
			continue
		}
		if u.pauses.stops() || u.running >= k.c.PerUnit {
			stay = append(stay, l)
			continue
		}
		if k.waitForDue(l) {
			l.ready = false
			continue
		}
		k.launch(l)
		k.ready.push(l)
	}
	k.ready.pushFront(stay...)
}

// waitForDue holds a lane whose head came out of a retry stage before its time.
func (k *Consumer) waitForDue(l *lane) bool {
	i := l.queue.all()[0]
	if i.waits {
		return false
	}
	i.waits = true
	wait := time.Until(dueAt(&i.d.Message))
	if wait <= 0 {
		return false
	}
	l.held++
	k.after(min(wait, max(k.c.Policy.MaxDelay, time.Second)), func() { k.letGo(l) })
	return true
}

// wakeAll looks at every lane of a unit again.
func (k *Consumer) wakeAll(u *unit) {
	for _, l := range u.lanes {
		k.wake(l)
	}
	if k.one != nil {
		k.wake(k.one)
	}
}

// letGo ends one reason for which a lane stands still.
func (k *Consumer) letGo(l *lane) {
	l.held--
	k.wake(l)
}

// launch takes what one call handles out of a lane and runs it.
func (k *Consumer) launch(l *lane) {
	n := 1
	if k.c.Routes[0].way == batched {
		n = k.batchOf(l)
	}
	j := k.newJob(l, n)
	for _, i := range j.items {
		k.uncount(i)
		i.open = true
	}
	l.running++
	j.u.running++
	j.u.open += n
	k.running++
	k.mu.Lock()
	k.jobs[j] = struct{}{}
	k.mu.Unlock()
	go j.start() // Stop waits for it by the job, and not for one that never ends
	k.steer(j.u)
}

// batchOf is how many deliveries of one unit stand at the head of a lane.
func (k *Consumer) batchOf(l *lane) int {
	n := 1
	for n < l.queue.len() && n < k.c.Batch && l.queue.all()[n].u == l.queue.all()[0].u {
		n++
	}
	return n
}

// tidy forgets an empty lane: keys come and go. The one without key stays.
func (k *Consumer) tidy(l *lane) {
	if l.u != nil && l.key != "" && l.running == 0 && l.held == 0 && l.queue.len() == 0 && !l.ready {
		delete(l.u.lanes, l.key)
	}
}

// after runs f in the dispatcher's goroutine, once. The end of the consumer takes it away.
func (k *Consumer) after(d time.Duration, f func()) {
	var t *time.Timer
	t = time.AfterFunc(d, func() {
		k.box.post(func() {
			delete(k.waits, t)
			f()
		})
	})
	k.waits[t] = struct{}{}
}

// steer tells the adapter whether a unit may deliver.
func (k *Consumer) steer(u *unit) {
	switch {
	case u.waiting > k.c.Prefetch || u.waiting > 0 && k.bytes > k.c.MaxBufferedBytes:
		k.pause(u, reasonBackpressure)
	case u.waiting <= k.c.Prefetch/2 && (k.bytes <= k.c.MaxBufferedBytes/2 || u.waiting == 0):
		k.resume(u, reasonBackpressure)
	}
	stop := u.pauses.closes() || k.pauses.closes()
	if stop == u.stopped || u.gone || u.leaving {
		return
	}
	if u.stopped = stop; stop {
		k.edge.Pause(u.Unit)
	} else {
		k.edge.Resume(u.Unit)
	}
}

func (k *Consumer) pause(u *unit, reason string) {
	if _, paused := u.pauses[reason]; !paused {
		u.pauses[reason] = struct{}{}
		k.repaused = true
		k.c.Hooks.paused(reason, true)
	}
}

func (k *Consumer) resume(u *unit, reason string) {
	if _, paused := u.pauses[reason]; paused {
		delete(u.pauses, reason)
		k.repaused = true
		k.c.Hooks.paused(reason, false)
	}
}

// setPause is an order from outside.
func (k *Consumer) setPause(reason string, names []string, on bool) {
	if len(names) == 0 {
		_, paused := k.pauses[reason]
		if on == paused && (on || reason != reasonExhausted) {
			return
		}
		k.repaused = true
		if on {
			k.pauses[reason] = struct{}{}
			k.c.Hooks.paused(reason, true)
		} else if paused {
			delete(k.pauses, reason)
			k.c.Hooks.paused(reason, false)
		}
	}
	for _, u := range k.units {
		switch {
		case len(names) > 0 && !slices.Contains(names, u.Name):
		case len(names) == 0: // the consumer's own set, and what its units were stopped for
			if !on && reason == reasonExhausted {
				k.resume(u, reason)
			}
		case on:
			k.pause(u, reason)
		default:
			k.resume(u, reason)
		}
		k.steer(u)
	}
}

// revoke stops units: what waits is left to the next owner, what runs may end. idle is closed then.
func (k *Consumer) revoke(ids []transport.Unit, idle chan struct{}) {
	open := 1 // this call
	ended := func() {
		if open--; open == 0 {
			close(idle)
		}
	}
	for _, id := range ids {
		u := k.units[id]
		if u == nil {
			continue
		}
		u.leaving = true
		k.drop(u)
		if u.open > 0 {
			open++
			u.whenIdle = ended
		}
	}
	ended()
}

// drop leaves what waits unsettled.
func (k *Consumer) drop(u *unit) {
	lanes := u.lanes
	if k.one != nil {
		lanes = map[string]*lane{"": k.one}
	}
	for _, l := range lanes {
		kept := l.queue.all()[:0]
		for _, i := range l.queue.all() {
			if i.u != u {
				kept = append(kept, i)
				continue
			}
			k.uncount(i)
			k.unsettled(i)
		}
		l.queue.replace(kept)
	}
}

// forget ends a unit: nothing of it is settled any more.
func (k *Consumer) forget(u *unit, why error) {
	u.leaving, u.gone = true, true
	k.drop(u)
	for reason := range u.pauses {
		k.resume(u, reason)
	}
	u.cancel(why)
	delete(k.units, u.Unit)
	k.repaused = true
}

// closeItem ends one of a unit's open deliveries.
func (k *Consumer) closeItem(i *item) {
	if !i.open {
		return
	}
	i.open = false
	i.u.open--
	if i.u.open == 0 && i.u.whenIdle != nil {
		i.u.whenIdle()
		i.u.whenIdle = nil
	}
}

// drain begins the end: done is closed when nothing is open any more.
func (k *Consumer) drain(done chan struct{}) {
	k.draining = true
	for _, u := range k.units {
		k.drop(u)
	}
	k.drained = append(k.drained, done)
}

func (k *Consumer) tellDrained() {
	if len(k.drained) == 0 || k.running > 0 || k.handing+k.handingLater+k.handNext.len() > 0 || k.settling.len() > 0 {
		return
	}
	for _, done := range k.drained {
		close(done)
	}
	k.drained = nil
}

// abandon ends what the drain did not wait for, and tells how many deliveries that are.
func (k *Consumer) abandon() int {
	left := 0
	for _, u := range k.units {
		left += u.open
		u.gone = true
		u.cancel(messaging.ErrClosed)
	}
	return left
}
