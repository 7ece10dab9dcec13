package outbox

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/backend-skeleton/relay/internal/outbox/outboxdb"
)

// Lease of one lane. It is valid while owner and epoch stand in the database and, for this process, for the TTL
// counted from before the statement that took or renewed it.
type Lease struct {
	Lane        int32
	Destination string
	Epoch       int64
	LowSeq      int64 // below it nothing unpublished was seen; a hint
	Crashes     int32 // owners that died with a window open, in a row
	Changes     int64
	// OpenWindow says that the former owner left a window: it must be taken over before anything is claimed.
	OpenWindow bool
}

// TakenOver is the number of a lane's window once what the former owner left is taken over. The owner's own numbers are
// above it.
const TakenOver int64 = 1

// Step is one statement of a lane's owner that writes the lane's window or gives the lane back. Number rises with each step
// of a lease, whatever became of the one before: a step that was given up without an answer may be run late, and must
// change nothing once a later one was written.
type Step struct {
	Lane          int32
	Epoch, Number int64
}

// Unchanged is a lane for which a step did nothing: it is lost, or else a higher number stands there, by a later step or
// by somebody's hand.
type Unchanged struct {
	Lane int32
	Lost bool
}

// Work is a lane that holds unpublished rows which may be sent.
type Work struct {
	Lane             int32
	Destination      string // "" where no file names the destination
	Pending, Waiting bool
	// Due is when the first deferred row is due; negative or zero is now, very large is never.
	Due     time.Duration
	Owner   uuid.UUID // uuid.Nil: free
	Epoch   int64
	Expired bool
	Changes int64
	Now     time.Time // by the database clock
}

// Peer is a live relay.
type Peer struct {
	ID     uuid.UUID
	Serves []string
}

// Register makes destinations known, with their lanes. A name whose lanes another name has already is refused.
func (s *Store) Register(ctx context.Context, destinations []string) error {
	return s.do(ctx, "register destinations", func(ctx context.Context, q *outboxdb.Queries) error {
		return q.RegisterDestinations(ctx, destinations)
	})
}

// Heartbeat shows that this process lives, and what it serves. A draining one is not counted for the fair share.
func (s *Store) Heartbeat(ctx context.Context, serves []string, draining bool) error {
	state := "RUNNING"
	if draining {
		state = "DRAINING"
	}
	return s.do(ctx, "heartbeat", func(ctx context.Context, q *outboxdb.Queries) error {
		return q.Heartbeat(ctx, outboxdb.HeartbeatParams{ID: s.c.Owner, Name: s.c.Name, Version: s.c.Version, Serves: serves, State: state})
	})
}

// Leave takes this process out of the fleet, with relays that have been dead for a day.
func (s *Store) Leave(ctx context.Context) error {
	return s.do(ctx, "leave", func(ctx context.Context, q *outboxdb.Queries) error { return q.ForgetRelay(ctx, s.c.Owner) })
}

// Peers are the live relays, this one included.
func (s *Store) Peers(ctx context.Context) (peers []Peer, err error) {
	err = s.do(ctx, "list relays", func(ctx context.Context, q *outboxdb.Queries) error {
		rows, err := q.LiveRelays(ctx, s.c.LeaseTTL)
		for _, r := range rows {
			peers = append(peers, Peer{ID: r.ID, Serves: r.Serves})
		}
		return err
	})
	return peers, err
}

// Pauses are the destinations that someone paused, with a reason of one of the pauses.
func (s *Store) Pauses(ctx context.Context) (reasons map[string]string, err error) {
	reasons = map[string]string{}
	err = s.do(ctx, "read pauses", func(ctx context.Context, q *outboxdb.Queries) error {
		rows, err := q.Pauses(ctx)
		for _, r := range rows {
			reasons[r.Name] = r.Reason
		}
		return err
	})
	return reasons, err
}

// ServerStarted gives the moment at which the database server started, by its own clock. One that is young runs for less
// than a lease: lanes that look expired may be those of relays which could not renew meanwhile. The same is true of one
// that is not the server of before.
func (s *Store) ServerStarted(ctx context.Context) (started time.Time, young bool, err error) {
	err = s.do(ctx, "ask for the server's start", func(ctx context.Context, q *outboxdb.Queries) error {
		row, err := q.ServerStarted(ctx, s.c.LeaseTTL)
		started, young = row.Started, row.Young
		return err
	})
	return started, young, err
}

// FindWork lists the lanes with rows to send. It costs a probe per such lane.
func (s *Store) FindWork(ctx context.Context) (work []Work, err error) {
	err = s.do(ctx, "find work", func(ctx context.Context, q *outboxdb.Queries) error {
		rows, err := q.FindWork(ctx)
		work = make([]Work, 0, len(rows))
		for _, r := range rows {
			w := Work{
				Lane: r.Lane, Destination: r.Destination, Pending: r.Pending, Waiting: r.Waiting, Expired: r.Expired, Epoch: r.Epoch, Changes: r.Changes, Now: r.Now,
				Due: inMilliseconds(r.DueInMs),
			}
			if r.Owner != nil {
				w.Owner = *r.Owner
			}
			work = append(work, w)
		}
		return err
	})
	return work, err
}

// Own is a lane that names this process as its owner, under the epoch that was seen there.
type Own struct {
	Lane  int32
	Epoch int64
}

// Take leases up to want of the lanes: free ones, and those whose lease has expired if it runs soon after rob, a moment by
// the database clock; zero leaves them alone. A third of a lease later it leaves them too: then the server stood still, and
// their owners could not renew. own are those of the lanes that name this process under an
// epoch that is not known here: they get another, unless they have got one since.
func (s *Store) Take(ctx context.Context, lanes []int32, want int, rob time.Time, own ...Own) (leases []Lease, err error) {
	if !rob.IsZero() {
		rob = rob.Add(s.c.LeaseTTL / 3)
	}
	p := outboxdb.TakeLanesParams{Owner: s.c.Owner, Ttl: s.c.LeaseTTL, Lanes: lanes, Rob: rob, Want: int32(want), OwnLanes: []int32{}, OwnEpochs: []int64{}}
	for _, o := range own {
		p.OwnLanes, p.OwnEpochs = append(p.OwnLanes, o.Lane), append(p.OwnEpochs, o.Epoch)
	}
	err = s.do(ctx, "take lanes", func(ctx context.Context, q *outboxdb.Queries) error {
		rows, err := q.TakeLanes(ctx, p)
		leases = make([]Lease, 0, len(rows))
		for _, r := range rows {
			leases = append(leases, Lease{
				Lane: r.Lane, Destination: r.Destination, Epoch: r.Epoch, LowSeq: r.LowSeq, Crashes: r.Crashes, Changes: r.Changes,
				OpenWindow: r.OpenWindow,
			})
		}
		return err
	})
	return leases, err
}

// stepArgs gives steps by lane: several statements of a process write to the same lanes, and lock them in this order.
func stepArgs(steps []Step) (lanes []int32, epochs, numbers []int64) {
	steps = slices.Clone(steps)
	slices.SortFunc(steps, func(a, b Step) int { return cmp.Compare(a.Lane, b.Lane) })
	for _, s := range steps {
		lanes, epochs, numbers = append(lanes, s.Lane), append(epochs, s.Epoch), append(numbers, s.Number)
	}
	return lanes, epochs, numbers
}

// inOrder gives lanes and their epochs by number: several statements of a process write to the same lanes, and lock them
// in the order in which they are given.
func inOrder(lanes []int32, epochs []int64) ([]int32, []int64) {
	order := make([]int, len(lanes))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(lanes[a], lanes[b]) })
	sorted, theirs := make([]int32, len(lanes)), make([]int64, len(lanes))
	for i, o := range order {
		sorted[i], theirs[i] = lanes[o], epochs[o]
	}
	return sorted, theirs
}

// Renewed is a lane that this process still owned when it was renewed.
type Renewed struct {
	Lane           int32
	Epoch, Changes int64
	// Number of the last step that was written, zero before the first.
	Number int64
	// Ended is the transaction id below which every writer has ended, and Begun the one from which on none had begun, both
	// when the lease was renewed.
	Ended, Begun int64
}

// Renew extends the leases; lanes that are not in the answer are lost.
func (s *Store) Renew(ctx context.Context, lanes []int32, epochs []int64) (kept []Renewed, err error) {
	lanes, epochs = inOrder(lanes, epochs)
	err = s.do(ctx, "renew lanes", func(ctx context.Context, q *outboxdb.Queries) error {
		rows, err := q.RenewLanes(ctx, outboxdb.RenewLanesParams{Ttl: s.c.LeaseTTL, Owner: s.c.Owner, Lanes: lanes, Epochs: epochs})
		kept = make([]Renewed, 0, len(rows))
		for _, r := range rows {
			kept = append(kept, Renewed{Lane: r.Lane, Epoch: r.Epoch, Changes: r.Changes, Number: r.WindowNo, Ended: r.Xmin, Begun: r.Xmax})
		}
		return err
	})
	return kept, err
}

// takeOverStep bounds what one transaction of a take-over writes.
const takeOverStep = 1000

// TakeOver turns the window that a dead owner left into AMBIGUOUS rows with the code RELAY_LOST: they may be on the
// wire. On a destination ordered by key only the first row of a key is due at once. It gives the number of rows and
// of crashes in a row. A row that was lost from a solo window for the most-th time is parked: it alone was on its way
// each time; where skip is set it does not hold its key. The window stays until all rows are marked, so that a crash of this
// process repeats the rest. Called again after an answer was lost it counts no crash twice, and run late it changes nothing.
func (s *Store) TakeOver(ctx context.Context, l Lease, ordered, skip bool, most int) (rows int64, crashes int32, err error) {
	err = s.do(ctx, "take over a window", func(ctx context.Context, q *outboxdb.Queries) (err error) {
		rows, err = q.MarkLostIDs(ctx, outboxdb.MarkLostIDsParams{Lane: l.Lane, Owner: s.c.Owner, Epoch: l.Epoch, Ordered: ordered, Skip: skip, Most: int32(most)})
		return err
	})
	for more := true; more && err == nil; {
		err = s.do(ctx, "take over a window", func(ctx context.Context, q *outboxdb.Queries) error {
			r, err := q.MarkLostRange(ctx, outboxdb.MarkLostRangeParams{
				Lane: l.Lane, Owner: s.c.Owner, Epoch: l.Epoch, Ordered: ordered, Skip: skip, Most: int32(most), Step: takeOverStep,
			})
			if err != nil {
				return err
			}
			if !r.Owned {
				return ErrLeaseLost
			}
			rows, crashes, more = rows+r.Marked, r.Crashes, !r.Last
			return nil
		})
	}
	return rows, crashes, err
}

// Clean closes the windows of lanes that have nothing open, and forgets their crashes. It gives the lanes for which it
// did not.
func (s *Store) Clean(ctx context.Context, steps []Step) (unchanged []Unchanged, err error) {
	lanes, epochs, numbers := stepArgs(steps)
	err = s.do(ctx, "clean lanes", func(ctx context.Context, q *outboxdb.Queries) error {
		rows, err := q.CleanLanes(ctx, outboxdb.CleanLanesParams{Lanes: lanes, Epochs: epochs, Numbers: numbers, Owner: s.c.Owner})
		unchanged = nil
		for _, r := range rows {
			unchanged = append(unchanged, Unchanged{Lane: r.Lane, Lost: !r.Owned})
		}
		return err
	})
	return unchanged, err
}

// giveBackStep bounds one statement: it joins the lanes it is given one by one, so its cost grows with their square.
const giveBackStep = 200

// GiveBack frees lanes with nothing of theirs on the wire; epochs stay, attempts are untouched. It gives the lanes that it
// did not free.
func (s *Store) GiveBack(ctx context.Context, steps []Step) (unchanged []Unchanged, err error) {
	lanes, epochs, numbers := stepArgs(steps)
	for len(lanes) > 0 {
		n := min(len(lanes), giveBackStep)
		var rows []outboxdb.GiveBackLanesRow
		err := s.do(ctx, "give back lanes", func(ctx context.Context, q *outboxdb.Queries) (err error) {
			rows, err = q.GiveBackLanes(ctx, outboxdb.GiveBackLanesParams{Lanes: lanes[:n], Epochs: epochs[:n], Numbers: numbers[:n], Owner: s.c.Owner})
			return err
		})
		if err != nil {
			return unchanged, err
		}
		for _, r := range rows {
			unchanged = append(unchanged, Unchanged{Lane: r.Lane, Lost: !r.Owned})
		}
		lanes, epochs, numbers = lanes[n:], epochs[n:], numbers[n:]
	}
	return unchanged, nil
}

// inMilliseconds is at most some years: a row may be due in a year that no Duration reaches.
func inMilliseconds(ms float64) time.Duration {
	return time.Duration(min(ms, 1e11) * float64(time.Millisecond))
}
