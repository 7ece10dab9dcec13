package relay

import (
	"reflect"
	"time"

	"github.com/backend-skeleton/relay/messaging"
)

// Hooks are told what happens, for metrics, logs, traces and tests. Any may be nil. They are called from several
// goroutines and must not block. Nothing they get identifies a message.
type Hooks struct {
	// Recorded: outcomes of one kind were committed. state is what the rows became.
	Recorded func(d messaging.DestinationName, o messaging.Completion, f *messaging.Failure, state string, rows int)
	// Published: the broker's verdict on one row, before it is recorded.
	Published func(d messaging.DestinationName, broker string, r messaging.PublishResult)
	// Claimed rows, after the claim committed.
	Claimed func(d messaging.DestinationName, rows int, took time.Duration)
	// InFlight rows of a broker now.
	InFlight func(broker string, rows int)
	// Buffered payload bytes of a broker's rows that are handed over and not answered.
	Buffered func(broker string, bytes int64)
	// LostLease: outcomes of rows whose lane had another owner changed nothing.
	LostLease func(d messaging.DestinationName, rows int)
	// LateConfirmed: rows became PUBLISHED by an answer after the verdict or after the lease.
	LateConfirmed func(d messaging.DestinationName, rows int)
	// LateAnswer: an adapter's answer after the verdict.
	LateAnswer func(broker string, c messaging.Completion)
	// LateCommit: rows became visible behind a published row of their key.
	LateCommit func(d messaging.DestinationName, rows int)
	// Overtook: rows were stored although the broker refused an earlier one of their key.
	Overtook func(d messaging.DestinationName, rows int)
	// TakenOver: rows in the window of a dead relay became AMBIGUOUS.
	TakenOver func(d messaging.DestinationName, rows int64)
	// Weak: confirmed below the level that the profile asks for.
	Weak func(d messaging.DestinationName, rows int)
	// Breaker changed; destination is empty for a broker's.
	Breaker func(broker string, d messaging.DestinationName, s BreakerState, reason string)
	// SlowStart after a breaker closed again: so many rows may be open of the destination, or of each of the broker's where
	// it is empty; 0 when that is over.
	SlowStart func(broker string, d messaging.DestinationName, rows int)
	// Lanes owned of a destination.
	Lanes func(d messaging.DestinationName, owned int)
	// Unknown rows were parked.
	Unknown func(rows int64)
	// Pruned rows left a table after their retention time: "outbox" or "archive".
	Pruned func(table string, rows int64)
	// Trouble: an operation on the database failed and is repeated.
	Trouble func(operation string, err error)
}

func (h *Hooks) setDefaults() {
	nop(&h.Recorded, func(messaging.DestinationName, messaging.Completion, *messaging.Failure, string, int) {})
	nop(&h.Published, func(messaging.DestinationName, string, messaging.PublishResult) {})
	nop(&h.Claimed, func(messaging.DestinationName, int, time.Duration) {})
	nop(&h.InFlight, func(string, int) {})
	nop(&h.Buffered, func(string, int64) {})
	nop(&h.LostLease, func(messaging.DestinationName, int) {})
	nop(&h.LateConfirmed, func(messaging.DestinationName, int) {})
	nop(&h.LateAnswer, func(string, messaging.Completion) {})
	nop(&h.LateCommit, func(messaging.DestinationName, int) {})
	nop(&h.Overtook, func(messaging.DestinationName, int) {})
	nop(&h.TakenOver, func(messaging.DestinationName, int64) {})
	nop(&h.Weak, func(messaging.DestinationName, int) {})
	nop(&h.Breaker, func(string, messaging.DestinationName, BreakerState, string) {})
	nop(&h.SlowStart, func(string, messaging.DestinationName, int) {})
	nop(&h.Lanes, func(messaging.DestinationName, int) {})
	nop(&h.Unknown, func(int64) {})
	nop(&h.Pruned, func(string, int64) {})
	nop(&h.Trouble, func(string, error) {})
}

// nop sets a hook that nobody set.
func nop[F any](hook *F, f F) {
	if isNil(*hook) {
		*hook = f
	}
}

func isNil(f any) bool { return reflect.ValueOf(f).IsNil() }
