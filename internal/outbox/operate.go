package outbox

import (
	"context"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/backend-skeleton/relay/internal/outbox/outboxdb"
)

// Verb is what an operator does to a row.
type Verb string

// The verbs of [Store.Operate].
const (
	// Retry makes a row due now that waits for its next attempt.
	Retry Verb = "RETRY"
	// Park sets a row aside that is not published; where the destination blocks, its key waits behind it.
	Park Verb = "PARK"
	// Skip lets the key of a parked row move on; any other row that is not published is parked by it.
	Skip Verb = "SKIP"
	// Redrive makes a parked row due now with fresh attempts, before every younger row of its key.
	Redrive Verb = "REDRIVE"
)

// Result is what became of one row of an operation.
type Result string

// The results of [Store.Operate]. Nothing but Done changed the row's status.
const (
	// Done as asked, and noted in messaging_audit.
	Done Result = "DONE"
	// NotFound: no such row, or retention removed it.
	NotFound Result = "NOT_FOUND"
	// Changed: the row has another version than the one that was seen.
	Changed Result = "CHANGED"
	// NotApplicable: the verb means nothing for a row of this state.
	NotApplicable Result = "NOT_APPLICABLE"
	// InFlight: a relay may have the row on the wire at this moment; to ask again helps.
	InFlight Result = "IN_FLIGHT"
	// Unserved: no running relay serves the destination; the row stays parked with this reason.
	Unserved Result = "UNSERVED"
	// UnknownDestination: no relay's file names the destination; the row stays parked with this reason.
	UnknownDestination Result = "UNKNOWN_DESTINATION"
)

// Target is a row as the operator saw it.
type Target struct {
	MessageID uuid.UUID
	Version   int
}

// Operated is the answer for one row: its result, and its state and version afterwards. Both are zero for NotFound.
type Operated struct {
	MessageID uuid.UUID
	Result    Result
	State     State
	Version   int
}

// operateStep is how many rows one transaction of Operate takes: it holds the locks of their lanes.
const operateStep = 200

// Operate does the verb to each row, in steps that are transactions of their own. The answers are in the order of the
// targets; a row that cannot be changed keeps no other from being changed. To ask twice does nothing the second time,
// because a row changed by the first has another version or state. The reason, 1 to 500 characters, and the actor, 1 to
// 160, are kept in messaging_audit. After an error the answers given are those of the steps that were done.
func (s *Store) Operate(ctx context.Context, verb Verb, targets []Target, reason, actor string) ([]Operated, error) {
	if n := utf8.RuneCountInString(strings.TrimSpace(reason)); n < 1 || n > 500 {
		return nil, fmt.Errorf("outbox: operate on rows: a reason of 1 to 500 characters is needed")
	}
	if n := utf8.RuneCountInString(actor); n < 1 || n > 160 {
		return nil, fmt.Errorf("outbox: operate on rows: an actor of 1 to 160 characters is needed")
	}
	var out []Operated
	for len(targets) > 0 {
		step := targets[:min(operateStep, len(targets))]
		targets = targets[len(step):]
		p := outboxdb.OperateParams{Verb: string(verb), Reason: reason, Actor: actor}
		for _, t := range step {
			p.Ids, p.Versions = append(p.Ids, t.MessageID), append(p.Versions, int32(t.Version))
		}
		var rows []outboxdb.OperateRow
		err := s.do(ctx, "operate on rows", func(ctx context.Context, q *outboxdb.Queries) (err error) {
			rows, err = q.Operate(ctx, p)
			return err
		})
		if err != nil {
			return out, err
		}
		for _, r := range rows {
			out = append(out, Operated{MessageID: r.MessageID, Result: Result(r.Result), State: State(r.Status), Version: int(r.Version)})
		}
	}
	return out, nil
}
