package relay

import (
	"sync/atomic"
	"time"

	"github.com/backend-skeleton/relay/internal/outbox"
)

// longWriter is how long after its seq was seen a row is looked for behind the cursor at least. A seq is drawn a moment before its
// transaction gets an id, so that ids alone do not prove that nobody holds one.
const longWriter = time.Minute

const (
	// dearLook is what a claim that looks from the floor may cost for every claim to do so.
	dearLook = 100 * time.Millisecond
	// lookFactor keeps dearer ones a small part of the time.
	lookFactor = 10
)

// floor of an ordered lane is the seq from which on each claim looks for rows that became visible behind the cursor. It
// starts at 0, which is always right and dear where an old snapshot keeps many dead entries. It rises to a seq that was read
// once every writer of that time has ended, and a claim since has found nothing new below it: then no row below it can
// appear any more. An old transaction that writes nothing does not hold it.
//
// One that wrote does, and keeps dead entries besides. Where the look is so dear that the lane would stand still for it, it
// is done a part of the time, and between from where the low mark was a while ago: a row that such a transaction held back
// waits that long.
type floor struct {
	at int64
	// read is the highest seq that was read, for the renewer.
	read atomic.Int64
	// noted is a seq that was read before a moment, and the first transaction id that was not given out then.
	noted  int64
	begun  int64
	noteAt time.Time
	// proven is a seq below which every row that will ever be is visible now.
	proven int64
	// cost of the last look from the floor, and when it was.
	cost   time.Duration
	costAt time.Time
	// lows are the low mark at two moments, and when the second was taken.
	lows   [2]int64
	lowsAt time.Time
}

// from where the claim looks that is made now.
func (f *floor) from(low int64, now time.Time) int64 {
	if now.Sub(f.lowsAt) >= longWriter {
		f.lows, f.lowsAt = [2]int64{f.lows[1], low}, now
	}
	if f.cost < dearLook || now.Sub(f.costAt) >= lookFactor*f.cost {
		return f.at
	}
	return max(f.at, f.lows[0])
}

// renewed is told of a renewal that began when rows up to read had been read.
func (f *floor) renewed(read int64, k outbox.Renewed, now time.Time) {
	if f.noted > 0 && k.Ended >= f.begun && now.Sub(f.noteAt) >= longWriter {
		f.proven, f.noted = f.noted, 0
	}
	if f.noted == 0 && read > f.proven {
		f.noted, f.begun, f.noteAt = read, k.Begun, now
	}
}

// looked is told what a claim found and what it cost. Where rows at or below what is proven came, there may be more.
func (f *floor) looked(from int64, rows []outbox.Row, now time.Time, cost time.Duration) {
	if len(rows) > 0 { // of a row alone: a low mark may have been written by hand
		f.read.Store(max(f.read.Load(), rows[len(rows)-1].Seq))
	}
	if from != f.at {
		return
	}
	f.cost, f.costAt = cost, now
	if f.proven > f.at && (len(rows) == 0 || rows[0].Seq > f.proven) {
		f.at = f.proven
	}
}
