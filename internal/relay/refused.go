package relay

import (
	"context"

	"github.com/backend-skeleton/relay/internal/outbox"
	"github.com/backend-skeleton/relay/messaging"
)

// refused writes outcomes of which the table refuses one: by halves, until that one is alone.
func (r *recorder) refused(hard context.Context, entries []entry, err error) bool {
	if n := len(entries) / 2; n > 0 {
		return r.write(hard, entries[:n:n], true) && r.write(hard, entries[n:], true)
	}
	e := &entries[0]
	if parked := e.o.Result.Completion == messaging.Ambiguous && e.o.Status == outbox.Parked; !e.late && !parked {
		r.p.r.c.Hooks.Trouble("record an outcome; its row is parked", err)
		e.o = unrecordable(e.o, r.p.d)
		return r.write(hard, entries, true)
	}
	// The row is let go as one without answer: this process does not send it again.
	r.p.r.c.Hooks.Trouble("record an outcome; its row is left as it is", err)
	r.p.box.post(func() { r.p.giveUp(e.f) })
	return true
}

// unrecordable parks a row whose outcome the table refuses, as one that may be delivered.
func unrecordable(o outbox.Outcome, d *Destination) outbox.Outcome {
	o.Status, o.Attempt, o.Ambiguous, o.Delay, o.Skip = outbox.Parked, 1, 1, -1, !d.Block
	o.Result = messaging.PublishResult{
		Completion: messaging.Ambiguous, Routing: messaging.RoutingUnknown,
		Evidence: messaging.Evidence{Transmission: messaging.MayHaveBeenTransmitted, Level: messaging.LevelNone},
		Failure:  messaging.NewFailure(messaging.CategoryAmbiguous, messaging.CodeUnknownOutcome, "the table refused the outcome that the broker gave"),
	}
	return o
}

// giveUp lets go of a row of which nothing can be recorded.
func (p *pump) giveUp(f *flight) {
	if p.flights[f.row.MessageID] == nil {
		return
	}
	if f.place && f.resolved { // the adapter never had it, so that nobody else frees its place
		f.place = false
		p.freePlaces(1)
	}
	f.sent, f.resolved = true, false
	f.lane.stuck = append(f.lane.stuck, f.row.Seq)
	p.close(f)
	if k := f.key; k != nil {
		k.unrecorded--
		k.blocked = true // nothing of the key overtakes it
	}
}
