package outbox

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/backend-skeleton/relay/internal/outbox/outboxdb"
)

// Window is what one owner has open in a lane: the range over rows read as PENDING and the ids of all others. A zero
// Lo and Hi are an empty range.
type Window struct {
	Lo, Hi int64
	IDs    []uuid.UUID
}

// LaneClaim says what to read from one lane, and what is open there already: the claim writes the union.
type LaneClaim struct {
	Step
	Cursor int64 // rows after this seq
	Limit  int32
	Low    int64 // kept for the next owner
	Open   Window
	// InOrder asks whether rows up to the cursor became visible since it passed them, but for those in hand and those up
	// to Floor; if so the lane is read from Floor again, so that a later row of a key does not go first.
	InOrder bool
	Floor   int64
	InHand  []int64
	// Solo says that nothing else of this process is on the wire; the same in all claims of a call.
	Solo bool
	// Rewrite asks for the window to be written even if no row is found, because it still names finished rows.
	Rewrite bool
	// Changes by others that are heeded. [Store.ClaimPending] sets it, where it gives rows of the lane, to those that stood
	// there then: if they differ, the lane's blocked keys must be read anew before anything is published.
	Changes int64
}

// Key is an ordering key in its lane.
type Key struct {
	Lane int32
	Key  string
}

type claimArgs struct {
	lanes         []int32
	epochs        []int64
	numbers       []int64
	cursors, lows []int64
	floors        []int64
	inHand        []int64
	limits        []int32
	lo, hi        []int64
	rewrite       []bool
	solo          bool
	idLanes       []int32
	ids           []uuid.UUID
}

func newClaimArgs(claims []LaneClaim) claimArgs {
	claims = slices.Clone(claims)
	slices.SortFunc(claims, func(a, b LaneClaim) int { return cmp.Compare(a.Lane, b.Lane) }) // as they are locked
	n := len(claims)
	a := claimArgs{
		lanes: make([]int32, n), epochs: make([]int64, n), numbers: make([]int64, n), cursors: make([]int64, n), lows: make([]int64, n), limits: make([]int32, n),
		lo: make([]int64, n), hi: make([]int64, n), rewrite: make([]bool, n), floors: make([]int64, n), inHand: []int64{}, idLanes: []int32{}, ids: []uuid.UUID{},
	}
	for i, c := range claims {
		a.lanes[i], a.epochs[i], a.numbers[i] = c.Lane, c.Epoch, c.Number
		a.cursors[i], a.lows[i], a.limits[i] = c.Cursor, c.Low, c.Limit
		a.lo[i], a.hi[i], a.rewrite[i] = c.Open.Lo, c.Open.Hi, c.Rewrite
		a.solo = c.Solo
		a.floors[i] = -1
		if c.InOrder {
			a.floors[i] = c.Floor
			a.inHand = append(a.inHand, c.InHand...)
		}
		for _, id := range c.Open.IDs {
			a.idLanes, a.ids = append(a.idLanes, c.Lane), append(a.ids, id)
		}
	}
	return a
}

// ClaimPending reads rows that were never offered to a broker, by lane and seq, and writes the windows, in one
// committed statement. Rows of lanes that were lost meanwhile, or whose window a later step has written, are not in the
// answer; Renew tells the one from the other. maxBytes bounds the payload per
// lane; one row is always read.
func (s *Store) ClaimPending(ctx context.Context, destination string, claims []LaneClaim, maxBytes int64) (out []Row, err error) {
	a := newClaimArgs(claims)
	p := outboxdb.ClaimPendingParams{
		Lanes: a.lanes, Epochs: a.epochs, Numbers: a.numbers, Cursors: a.cursors, Limits: a.limits, Lows: a.lows, Floors: a.floors, InHand: a.inHand, OpenLo: a.lo, OpenHi: a.hi,
		Rewrite: a.rewrite, Destination: destination, MaxBytes: maxBytes, IDLanes: a.idLanes, Ids: a.ids, Owner: s.c.Owner, Solo: a.solo,
	}
	err = s.do(ctx, "claim", func(ctx context.Context, _ *outboxdb.Queries) (err error) {
		out, err = s.claimPending(ctx, p, claims)
		return err
	})
	return out, err
}

// ClaimRuns reads, for keys whose head may go out, the head and up to run rows that wait behind it, in seq order.
// Where block is set, rows behind a parked one stay.
func (s *Store) ClaimRuns(ctx context.Context, destination string, claims []LaneClaim, keys []Key, run int, block bool, maxBytes int64) (out []Row, err error) {
	a := newClaimArgs(claims)
	keyLanes, names := splitKeys(keys)
	err = s.do(ctx, "claim waiting rows", func(ctx context.Context, q *outboxdb.Queries) error {
		rows, err := q.ClaimRuns(ctx, outboxdb.ClaimRunsParams{
			Lanes: a.lanes, Epochs: a.epochs, Numbers: a.numbers, OpenLo: a.lo, OpenHi: a.hi, KeyLanes: keyLanes, Keys: names, Block: block,
			Destination: destination, Run: int32(run), MaxBytes: maxBytes, IDLanes: a.idLanes, Ids: a.ids, Owner: s.c.Owner, Solo: a.solo,
		})
		out = make([]Row, len(rows))
		for i := range rows {
			out[i] = Row(rows[i])
		}
		return err
	})
	return out, err
}

// ClaimDeferred reads due rows that no key holds back. unresolved are left alone: an earlier produce of theirs has
// not been answered.
func (s *Store) ClaimDeferred(ctx context.Context, destination string, claims []LaneClaim, ordered bool, unresolved []uuid.UUID, maxBytes int64) (out []Row, err error) {
	a := newClaimArgs(claims)
	if unresolved == nil {
		unresolved = []uuid.UUID{}
	}
	err = s.do(ctx, "claim deferred rows", func(ctx context.Context, q *outboxdb.Queries) error {
		rows, err := q.ClaimDeferred(ctx, outboxdb.ClaimDeferredParams{
			Lanes: a.lanes, Epochs: a.epochs, Numbers: a.numbers, Limits: a.limits, OpenLo: a.lo, OpenHi: a.hi, Destination: destination,
			Ordered: ordered, Unresolved: unresolved, MaxBytes: maxBytes, IDLanes: a.idLanes, Ids: a.ids, Owner: s.c.Owner, Solo: a.solo,
		})
		out = make([]Row, len(rows))
		for i := range rows {
			out[i] = Row(rows[i])
		}
		return err
	})
	return out, err
}

// BlockedKeys are the keys of the lanes that have waiting rows or, where block is set, a parked head.
func (s *Store) BlockedKeys(ctx context.Context, lanes []int32, block bool) (keys []Key, err error) {
	err = s.do(ctx, "read blocked keys", func(ctx context.Context, q *outboxdb.Queries) error {
		rows, err := q.BlockedKeys(ctx, outboxdb.BlockedKeysParams{Lanes: lanes, Block: block})
		keys = make([]Key, len(rows))
		for i, r := range rows {
			keys[i] = Key(r)
		}
		return err
	})
	return keys, err
}

// DueKeys are keys of which some row is due; whether the head is, only a look tells.
func (s *Store) DueKeys(ctx context.Context, lanes []int32) (keys []Key, err error) {
	err = s.do(ctx, "read due keys", func(ctx context.Context, q *outboxdb.Queries) error {
		rows, err := q.DueKeys(ctx, lanes)
		keys = make([]Key, len(rows))
		for i, r := range rows {
			keys[i] = Key(r)
		}
		return err
	})
	return keys, err
}

// KeyLook is what stands at the head of a key.
type KeyLook struct {
	Key
	// Waiting: there is a row that was refused, ambiguous or held. Due is when its first may go out; zero is now.
	Waiting bool
	Head    uuid.UUID
	Due     time.Duration
	// Parked: a parked row stands before it, or alone.
	Parked bool
	// Seq of the row that holds the key, the head or the parked one; zero if there is neither.
	Seq int64
	// Untimely: rows before the head are PENDING still, because it was parked before its turn and then redriven.
	Untimely bool
}

// LookAtKeys tells the state of keys.
func (s *Store) LookAtKeys(ctx context.Context, keys []Key, block bool) (looks []KeyLook, err error) {
	lanes, names := splitKeys(keys)
	err = s.do(ctx, "look at keys", func(ctx context.Context, q *outboxdb.Queries) error {
		rows, err := q.LookAtKeys(ctx, outboxdb.LookAtKeysParams{Lanes: lanes, Keys: names, Block: block})
		looks = make([]KeyLook, len(rows))
		for i, r := range rows {
			looks[i] = KeyLook{Key: Key{Lane: r.Lane, Key: r.Key}, Parked: r.Parked, Seq: r.Seq, Due: inMilliseconds(r.DueInMs), Untimely: r.Untimely}
			looks[i].Waiting, looks[i].Head = r.Head != uuid.Nil, r.Head
		}
		return err
	})
	return looks, err
}

// ReleaseScheduled lets scheduled rows that are due take their place in seq order. It gives the lowest released seq
// of each lane, from which the lane must be read again.
func (s *Store) ReleaseScheduled(ctx context.Context, lanes []int32, epochs []int64, step int) (lowest map[int32]int64, err error) {
	lowest = make(map[int32]int64)
	err = s.do(ctx, "release scheduled rows", func(ctx context.Context, q *outboxdb.Queries) error {
		rows, err := q.ReleaseScheduled(ctx, outboxdb.ReleaseScheduledParams{Lanes: lanes, Epochs: epochs, Owner: s.c.Owner, Step: int32(step)})
		for _, r := range rows {
			if low, ok := lowest[r.Lane]; !ok || r.Seq < low {
				lowest[r.Lane] = r.Seq
			}
		}
		return err
	})
	return lowest, err
}

func splitKeys(keys []Key) (lanes []int32, names []string) {
	lanes, names = make([]int32, len(keys)), make([]string, len(keys))
	for i, k := range keys {
		lanes[i], names[i] = k.Lane, k.Key
	}
	return lanes, names
}
