package observe

import (
	"log/slog"
	"regexp"

	"github.com/backend-skeleton/relay/messaging"
)

// Recorded counts outcomes of one kind that were written, and logs them:
// confirmed at level INFO, refused for now WARN, ambiguous and parked ERROR.
// state is the status that the rows have now.
func (o *Observer) Recorded(to messaging.DestinationName, c messaging.Completion, f *messaging.Failure, state string, rows int) {
	d := o.destination(to)
	completion := known(c)
	l := line{destination: d.name, outcome: completion.String(), category: noCategory}
	if f != nil && completion != messaging.Confirmed {
		l.category, l.code = f.Category.String(), f.Code
	}
	switch {
	case completion == messaging.Confirmed:
		l.level, l.message = slog.LevelInfo, "published"
	case state == stateParked:
		l.level, l.message, l.outcome = slog.LevelError, "parked", stateParked
	case completion == messaging.Ambiguous:
		l.level, l.message = slog.LevelError, "may have been published, goes out again under the same id"
	default:
		l.level, l.message = slog.LevelWarn, "refused for now"
	}
	o.metrics.outcomes.WithLabelValues(l.destination, l.outcome, l.category).Add(float64(rows))
	if completion == messaging.Confirmed || l.outcome == stateParked {
		d.messages[completion].Add(float64(rows))
	}
	o.log.add(l, rows)
}

// LateConfirmed counts rows that a late confirmation made published.
func (o *Observer) LateConfirmed(to messaging.DestinationName, rows int) {
	d := o.destination(to)
	o.metrics.lateConfirmed.WithLabelValues(d.name).Add(float64(rows))
	d.messages[messaging.Confirmed].Add(float64(rows))
	o.log.add(line{level: slog.LevelInfo, message: "confirmed late", destination: d.name}, rows)
}

// TakenOver counts rows that were in the window of a relay which died: they may
// be delivered, and go out again under the same id.
func (o *Observer) TakenOver(to messaging.DestinationName, rows int64) {
	o.Recorded(to, messaging.Ambiguous, relayLost, "AMBIGUOUS", int(rows))
}

var relayLost = messaging.NewFailure(messaging.CategoryAmbiguous, messaging.CodeRelayLost, "")

// Unknown counts rows of destinations that no file names, which were parked.
func (o *Observer) Unknown(rows int64) {
	o.Recorded("", messaging.Rejected, unknownDestination, stateParked, int(rows))
}

var unknownDestination = messaging.NewFailure(messaging.CategoryConfiguration, messaging.CodeUnknownDestination, "")

// LostLease counts outcomes that changed nothing, since another relay owns the
// lane.
func (o *Observer) LostLease(to messaging.DestinationName, rows int) {
	o.metrics.lostLease.Add(float64(rows))
	o.log.add(line{level: slog.LevelWarn, message: "lease lost: outcomes changed nothing", destination: o.destination(to).name}, rows)
}

// LateCommit counts rows that were committed behind a published row of their key,
// so that their writers did not take turns.
func (o *Observer) LateCommit(to messaging.DestinationName, rows int) {
	d := o.destination(to)
	o.metrics.lateCommit.WithLabelValues(d.name).Add(float64(rows))
	o.log.add(line{level: slog.LevelWarn, message: "committed behind a published row of the same key", destination: d.name}, rows)
}

// Overtook counts rows that were stored although the broker refused an earlier one
// of their key: its consumers see them out of order.
func (o *Observer) Overtook(to messaging.DestinationName, rows int) {
	d := o.destination(to)
	o.metrics.overtook.WithLabelValues(d.name).Add(float64(rows))
	o.log.add(line{level: slog.LevelError, message: "stored although the broker refused an earlier message of the key", destination: d.name}, rows)
}

// Pruned counts and logs rows that left a table after their retention time.
func (o *Observer) Pruned(table string, rows int64) {
	o.metrics.retention.WithLabelValues(table).Add(float64(rows))
	o.log.add(line{level: slog.LevelInfo, message: "rows left the " + table + " after their retention time"}, int(rows))
}

// ownPort is the near end of a connection in an error of the network.
var ownPort = regexp.MustCompile(`:\d+->`)

// Trouble logs an error of the program's own work, such as a database that does
// not answer. operation says what was tried, and is tried again.
func (o *Observer) Trouble(operation string, err error) {
	text := ownPort.ReplaceAllString(err.Error(), "->") // it differs each time, and equal errors are summed up
	o.log.add(line{level: slog.LevelError, message: "an operation failed and is tried again", operation: operation, err: text}, 1)
}
