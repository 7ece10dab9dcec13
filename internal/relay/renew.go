package relay

import (
	"context"
	"errors"
	"time"

	"github.com/backend-skeleton/relay/internal/outbox"
	"github.com/backend-skeleton/relay/internal/publish"
)

// renewEvery is how often leases are renewed: a third of the lease, and more often where the publish timeout takes up
// most of it, since a row is only sent if its verdict comes before the lease ends.
func (r *Relay) renewEvery() time.Duration {
	longest := time.Duration(0)
	for i := range r.c.Destinations {
		longest = max(longest, r.c.Destinations[i].Timeout)
	}
	return max(min(r.c.Lease/3, (r.c.Lease-longest-publish.Grace)/2), 50*time.Millisecond)
}

// renew keeps the leases and shows that this process lives, until hard ends.
func (r *Relay) renew(hard context.Context) {
	every := r.renewEvery()
	timer := time.NewTimer(every)
	defer timer.Stop()
	for tries := 0; ; {
		select {
		case <-hard.Done():
			return
		case <-timer.C:
		}
		pause := every
		if err := r.renewOnce(hard); err != nil && hard.Err() == nil {
			r.c.Hooks.Trouble("renew", err)
			tries++
			r.database.failed("renewer", tries, err)
			pause = min(every, quiet(tries)) // at first soon, while the leases last
		} else {
			tries = 0
			r.database.works("renewer", true)
		}
		timer.Reset(pause)
	}
}

// fit are the destinations that this relay can serve now, as far as others can do it for it where it cannot.
func (r *Relay) fit() []string {
	serves := make([]string, 0, len(r.pumps))
	for _, p := range r.pumps {
		if !p.unfit.Load() {
			serves = append(serves, string(p.d.Name))
		}
	}
	return serves
}

func (r *Relay) renewOnce(ctx context.Context) error {
	if err := r.c.Store.Heartbeat(ctx, r.fit(), r.draining.Load()); err != nil {
		return err
	}
	lanes, numbers, epochs := r.registry.all()
	if len(lanes) == 0 {
		r.alive()
		return nil
	}
	read := make([]int64, len(lanes))
	for i, l := range lanes {
		read[i] = l.floor.read.Load()
	}
	start, now := r.since(), time.Now()
	kept, err := r.c.Store.Renew(ctx, numbers, epochs)
	if err != nil {
		return err
	}
	r.alive()
	still := make(map[int32]outbox.Renewed, len(kept))
	for _, k := range kept {
		still[k.Lane] = k
	}
	for i, l := range lanes {
		k, ok := still[l.lease.Lane]
		if odd := k.Number > l.number.Load(); !ok || odd {
			if odd { // taken again, the lane begins anew
				r.odd("renew", outbox.Unchanged{Lane: k.Lane})
			}
			l.valid.Store(0)
			l.pump.box.post(func() { l.pump.remove(l) })
			continue
		}
		l.valid.Store(int64(start + r.c.Lease))
		r.sawChanges(ctx, l, k.Changes)
		if l.pump.d.Ordered && read[i] > 0 {
			l.pump.box.post(func() { l.floor.renewed(read[i], k, now) })
		}
	}
	return nil
}

// errOddNumber tells of a hand in the table: no step of this process is above its own last one.
var errOddNumber = errors.New("a lane's window has a number that its owner did not write")

// odd tells of a lane that a step left unchanged though it is owned here.
func (r *Relay) odd(operation string, u outbox.Unchanged) {
	if !u.Lost {
		r.c.Hooks.Trouble(operation, errOddNumber)
	}
}

// sawChanges has the pump read a lane's blocked keys anew when others wrote to its rows.
func (r *Relay) sawChanges(ctx context.Context, l *lane, changes int64) {
	if l.changes.Swap(changes) != changes {
		l.pump.box.post(func() {
			l.check, l.fromZero = true, true
			l.pump.due[l] = true
			l.pump.changed(ctx, l)
		})
	}
}

// alive notes a good statement. After a gap in which leases could not be renewed, others' leases are left alone for
// the length of one: they may only look expired.
func (r *Relay) alive() {
	now := r.since()
	last := r.lastGood.Swap(int64(now))
	if now-time.Duration(last) > r.c.Lease/3 {
		r.spareOthers()
	}
}
