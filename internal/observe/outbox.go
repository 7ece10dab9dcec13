package observe

import (
	"log/slog"

	"github.com/backend-skeleton/relay/messaging"
)

// Outcome is what became of one row.
type Outcome struct {
	Destination messaging.DestinationName
	Result      messaging.PublishResult
	// Parked tells that the row was given up and waits for an operator.
	Parked bool
}

// Recorded counts outcomes that were written, and logs a line for each kind of
// them: confirmed at level INFO, refused for now WARN, ambiguous and parked
// ERROR.
func (o *Observer) Recorded(outcomes []Outcome) {
	// A batch is mostly of one kind, so it is summed up before the series are asked
	// for.
	sums := make(map[line]int, 4)
	for i := range outcomes {
		sums[o.outcomeLine(&outcomes[i])]++
	}
	for l, n := range sums {
		o.count(l, n)
		o.log.add(l, n)
	}
}

func (o *Observer) outcomeLine(out *Outcome) line {
	completion := known(out.Result.Completion)
	l := line{destination: o.destination(out.Destination).name, outcome: completion.String(), category: noCategory, completion: completion}
	if f := out.Result.Failure; f != nil && completion != messaging.Confirmed {
		l.category, l.code = f.Category.String(), f.Code
	}
	switch {
	case completion == messaging.Confirmed:
		l.level, l.message = slog.LevelInfo, "published"
	case out.Parked:
		l.level, l.message, l.outcome = slog.LevelError, "parked", outcomeParked
	case completion == messaging.Ambiguous:
		l.level, l.message = slog.LevelError, "may have been published, goes out again under the same id"
	default:
		l.level, l.message = slog.LevelWarn, "refused for now"
	}
	return l
}

func (o *Observer) count(l line, n int) {
	o.metrics.outcomes.WithLabelValues(l.destination, l.outcome, l.category).Add(float64(n))
	if l.completion == messaging.Confirmed || l.outcome == outcomeParked {
		o.destination(messaging.DestinationName(l.destination)).messages[l.completion].Add(float64(n))
	}
}

// LateConfirmed counts rows that a late confirmation made published.
func (o *Observer) LateConfirmed(to messaging.DestinationName, rows int) {
	d := o.destination(to)
	o.metrics.lateConfirmed.WithLabelValues(d.name).Add(float64(rows))
	d.messages[messaging.Confirmed].Add(float64(rows))
	o.log.add(line{level: slog.LevelInfo, message: "confirmed late", destination: d.name}, rows)
}

// LostLease counts outcomes that changed nothing, since another relay owns the
// lane.
func (o *Observer) LostLease(rows int) {
	o.metrics.lostLease.Add(float64(rows))
	o.log.add(line{level: slog.LevelWarn, message: "lease lost: outcomes changed nothing"}, rows)
}

// LateCommit counts rows that were committed behind a published row of their key,
// so that their writers did not take turns.
func (o *Observer) LateCommit(to messaging.DestinationName, rows int) {
	d := o.destination(to)
	o.metrics.lateCommit.WithLabelValues(d.name).Add(float64(rows))
	o.log.add(line{level: slog.LevelWarn, message: "committed behind a published row of the same key", destination: d.name}, rows)
}

// Trouble logs an error of the relay's own work, such as a database that does not
// answer. op says what was tried.
func (o *Observer) Trouble(op string, err error) {
	o.log.add(line{level: slog.LevelError, message: op, err: err.Error()}, 1)
}
