package outbox

import (
	"bytes"
	"context"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/backend-skeleton/relay/internal/outbox/outboxdb"
	"github.com/backend-skeleton/relay/messaging"
)

// Outcome of one row: what the broker proved, and what becomes of the row.
type Outcome struct {
	Lane      int32
	Epoch     int64
	ID        uuid.UUID
	Version   int32 // as claimed
	FromIDs   bool  // the window names the row by id
	Status    State // PUBLISHED, RETRYABLE_FAILURE, AMBIGUOUS or PARKED
	Attempt   int32 // added to attempts
	Ambiguous int32 // added to ambiguous_attempts
	// Delay until the row is due, by the database clock; negative means that it waits behind the head of its key.
	Delay time.Duration
	// Skip marks a parked row as one that does not block its key.
	Skip   bool
	Result messaging.PublishResult
}

// Record writes outcomes in one transaction, fenced by owner and epoch. It gives the ids that it could not write,
// because the lane is lost, the row has changed since or was published already; see [Store.StillOpen].
func (s *Store) Record(ctx context.Context, outcomes []Outcome) (missed []uuid.UUID, err error) {
	r := newRecord(s.c.Owner, outcomes)
	var w written
	err = s.do(ctx, "record outcomes", func(ctx context.Context, _ *outboxdb.Queries) (err error) {
		w, err = s.record(ctx, r)
		return err
	})
	if err != nil || w.confirmed+len(w.others) == len(outcomes) {
		return nil, err
	}
	seen := make(map[uuid.UUID]bool, len(outcomes))
	for _, id := range w.others {
		seen[id] = true
	}
	if w.confirmed > 0 {
		confirmed, err := s.confirmedAt(ctx, r, w.at)
		if err != nil {
			return nil, err
		}
		for _, id := range confirmed {
			seen[id] = true
		}
	}
	for _, o := range outcomes {
		if !seen[o.ID] {
			missed = append(missed, o.ID)
		}
	}
	return missed, nil
}

// written is what a transaction that records did: how many rows were confirmed, which others were written, and when
// it began.
type written struct {
	confirmed int
	others    []uuid.UUID
	at        time.Time
}

// record writes outcomes of every kind as one transaction in one round trip.
func (s *Store) record(ctx context.Context, r *record) (w written, err error) {
	var c capture
	q := outboxdb.New(&c)
	for _, p := range r.confirmed {
		_, _ = q.RecordConfirmed(ctx, p)
	}
	if len(r.others.Ids) > 0 {
		_, _ = q.RecordOthers(ctx, r.others)
	}
	if len(r.closed.Ids) > 0 {
		_ = q.CloseWindowIDs(ctx, r.closed)
	}
	t, err := s.pipe.start(ctx, c.statements)
	if err != nil {
		return w, err
	}
	w.at = t.began
	for range r.confirmed {
		tag, err := t.results.Exec()
		if err != nil {
			return w, t.finish(err)
		}
		w.confirmed += int(tag.RowsAffected())
	}
	if len(r.others.Ids) > 0 {
		rows, err := t.results.Query()
		if err == nil {
			w.others, err = pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
		}
		if err != nil {
			return w, t.finish(err)
		}
	}
	if len(r.closed.Ids) > 0 {
		if _, err := t.results.Exec(); err != nil {
			return w, t.finish(err)
		}
	}
	return w, t.finish(nil)
}

// confirmedAt tells which rows a transaction confirmed that did not confirm them all.
func (s *Store) confirmedAt(ctx context.Context, r *record, at time.Time) (ids []uuid.UUID, err error) {
	p := outboxdb.ConfirmedAtParams{Owner: s.c.Owner, At: at}
	for _, c := range r.confirmed {
		p.Ids = append(p.Ids, c.Ids...)
	}
	err = s.do(ctx, "look for confirmed rows", func(ctx context.Context, q *outboxdb.Queries) (err error) {
		ids, err = q.ConfirmedAt(ctx, p)
		return err
	})
	return ids, err
}

type record struct {
	confirmed []outboxdb.RecordConfirmedParams // one for each evidence: a broker gives the same one to nearly all
	others    outboxdb.RecordOthersParams
	closed    outboxdb.CloseWindowIDsParams
}

// newRecord puts the rows in the order of their ids: whoever writes many rows locks them in that order, or two such
// writers could wait for each other.
func newRecord(owner uuid.UUID, outcomes []Outcome) *record {
	r := &record{}
	var lanes []int32
	var epochs []int64
	var confirmed []*confirmation
	// In the order of their ids the rows of one page of the table, and of the index, are met one after the other.
	ordered := make([]*Outcome, len(outcomes))
	for i := range outcomes {
		ordered[i] = &outcomes[i]
	}
	slices.SortFunc(ordered, func(a, b *Outcome) int { return bytes.Compare(a.ID[:], b.ID[:]) })
	for i, o := range ordered {
		if !leased(lanes, epochs, o) {
			lanes, epochs = append(lanes, o.Lane), append(epochs, o.Epoch)
		}
		if o.FromIDs {
			r.closed.Ids = append(r.closed.Ids, o.ID)
		}
		if o.Status == Published {
			confirmed = confirm(confirmed, o, len(ordered)-i)
			continue
		}
		r.other(o)
	}
	lanes, epochs = inOrder(lanes, epochs)
	for _, c := range confirmed {
		r.confirmed = append(r.confirmed, outboxdb.RecordConfirmedParams{
			Owner: owner, Lanes: lanes, Epochs: epochs, Ids: c.ids, Positions: c.positions.object(),
			Level: c.level.String(), Routing: c.routing.String(),
		})
	}
	r.others.Owner, r.others.Lanes, r.others.Epochs = owner, lanes, epochs
	r.closed.Owner, r.closed.Lanes, r.closed.Epochs = owner, lanes, epochs
	return r
}

// confirmation are the rows that were confirmed by the same evidence.
type confirmation struct {
	level     messaging.ConfirmationLevel
	routing   messaging.Routing
	ids       []uuid.UUID
	positions positions
}

// confirm puts a row to those with its evidence; more is how many rows may follow.
func confirm(all []*confirmation, o *Outcome, more int) []*confirmation {
	at := slices.IndexFunc(all, func(c *confirmation) bool {
		return c.level == o.Result.Evidence.Level && c.routing == o.Result.Routing
	})
	if at < 0 {
		at = len(all)
		all = append(all, &confirmation{level: o.Result.Evidence.Level, routing: o.Result.Routing, ids: make([]uuid.UUID, 0, more)})
	}
	c := all[at]
	c.ids = append(c.ids, o.ID)
	c.positions.add(o.ID, position(o.Result), more)
	return all
}

// leased tells whether the lane of an outcome is named already, under the same epoch: a lane may have been lost and come
// back between two outcomes.
func leased(lanes []int32, epochs []int64, o *Outcome) bool {
	for i, l := range lanes {
		if l == o.Lane && epochs[i] == o.Epoch {
			return true
		}
	}
	return false
}

func (r *record) other(o *Outcome) {
	p := &r.others
	p.Ids = append(p.Ids, o.ID)
	p.Versions = append(p.Versions, o.Version)
	p.Statuses = append(p.Statuses, string(o.Status))
	p.Attempts = append(p.Attempts, o.Attempt)
	p.Ambiguous = append(p.Ambiguous, o.Ambiguous)
	delay := int64(-1)
	if o.Delay >= 0 {
		delay = o.Delay.Milliseconds()
	}
	p.DelaysMs = append(p.DelaysMs, delay)
	p.Skips = append(p.Skips, o.Skip)
	p.Outcomes = append(p.Outcomes, o.Result.Completion.String())
	p.Transmissions = append(p.Transmissions, o.Result.Evidence.Transmission.String())
	p.Routings = append(p.Routings, o.Result.Routing.String())
	f := o.Result.Failure
	if f == nil {
		f = messaging.NewFailure(messaging.CategoryAmbiguous, messaging.CodeUnknownOutcome, "")
	}
	p.Categories = append(p.Categories, f.Category.String())
	p.Codes = append(p.Codes, clean(f.Code, 160))
	p.Details = append(p.Details, clean(f.Message, 500))
}

func position(r messaging.PublishResult) string {
	if r.Position == nil {
		return ""
	}
	return clean(r.Position.Text, 500)
}

// Hold sets rows aside that wait behind a blocked key; it gives those that were still PENDING.
func (s *Store) Hold(ctx context.Context, lanes []int32, epochs []int64, ids []uuid.UUID) (held []uuid.UUID, err error) {
	err = s.do(ctx, "hold rows", func(ctx context.Context, q *outboxdb.Queries) (err error) {
		held, err = q.Hold(ctx, outboxdb.HoldParams{Ids: ids, Lanes: lanes, Epochs: epochs, Owner: s.c.Owner})
		return err
	})
	return held, err
}

// StillOpen tells which of the rows are not PUBLISHED.
func (s *Store) StillOpen(ctx context.Context, ids []uuid.UUID) (open []uuid.UUID, err error) {
	err = s.do(ctx, "look for open rows", func(ctx context.Context, q *outboxdb.Queries) (err error) {
		open, err = q.StillOpen(ctx, ids)
		return err
	})
	return open, err
}

// AlreadyRecorded tells which of the outcomes stand in the table under this owner's lease. It settles what became of a
// record whose answer was lost.
func (s *Store) AlreadyRecorded(ctx context.Context, outcomes []Outcome) (ids []uuid.UUID, err error) {
	p := outboxdb.AlreadyRecordedParams{Owner: s.c.Owner}
	for i := range outcomes {
		o := &outcomes[i]
		p.Ids, p.Versions, p.Statuses = append(p.Ids, o.ID), append(p.Versions, o.Version), append(p.Statuses, string(o.Status))
		if !leased(p.Lanes, p.Epochs, o) {
			p.Lanes, p.Epochs = append(p.Lanes, o.Lane), append(p.Epochs, o.Epoch)
		}
	}
	err = s.do(ctx, "look for recorded outcomes", func(ctx context.Context, q *outboxdb.Queries) (err error) {
		ids, err = q.AlreadyRecorded(ctx, p)
		return err
	})
	return ids, err
}

// Late is a confirmation that came after the verdict, or after the lane was lost.
type Late struct {
	ID     uuid.UUID
	Result messaging.PublishResult
}

// RecordLate makes rows PUBLISHED whatever they are, because the broker has them; it gives those that it changed. It
// is the one write that needs no lease.
func (s *Store) RecordLate(ctx context.Context, late []Late) (changed []uuid.UUID, err error) {
	p := outboxdb.RecordLateConfirmedParams{Owner: s.c.Owner}
	late = slices.Clone(late)
	slices.SortFunc(late, func(a, b Late) int { return bytes.Compare(a.ID[:], b.ID[:]) }) // as newRecord does
	for _, l := range late {
		p.Ids = append(p.Ids, l.ID)
		p.Levels = append(p.Levels, l.Result.Evidence.Level.String())
		p.Routings = append(p.Routings, l.Result.Routing.String())
		p.Positions = append(p.Positions, position(l.Result))
	}
	err = s.do(ctx, "record late confirmations", func(ctx context.Context, q *outboxdb.Queries) (err error) {
		changed, err = q.RecordLateConfirmed(ctx, p)
		return err
	})
	return changed, err
}

// ParkBlocked parks up to 1000 rows of the lanes that are older than age, because their destination has been refused for so
// long; why says with which code. It gives their number.
func (s *Store) ParkBlocked(ctx context.Context, lanes []int32, epochs []int64, age time.Duration, skip bool, why *messaging.Failure) (parked int, err error) {
	err = s.do(ctx, "park blocked rows", func(ctx context.Context, q *outboxdb.Queries) error {
		rows, err := q.ParkBlocked(ctx, outboxdb.ParkBlockedParams{
			Lanes: lanes, Epochs: epochs, Owner: s.c.Owner, Age: age, Skip: skip, Category: why.Category.String(), Code: why.Code,
		})
		parked = len(rows)
		return err
	})
	return parked, err
}

// ParkUnknown parks rows in lanes of destinations that no file names, once they are older than grace.
func (s *Store) ParkUnknown(ctx context.Context, lanes []int32, grace time.Duration) (parked int64, err error) {
	err = s.do(ctx, "park unknown destinations", func(ctx context.Context, q *outboxdb.Queries) (err error) {
		parked, err = q.ParkUnknown(ctx, outboxdb.ParkUnknownParams{Lanes: lanes, Grace: grace})
		return err
	})
	return parked, err
}
