package torture

import (
	"crypto/sha256"
	"encoding/hex"
	"math"
	"time"
)

// History is everything that is known of a run.
type History struct {
	Written    []Written
	Deliveries []Delivery // in order of arrival per destination and key
	Rows       []Row      // the table at the end
	Changes    []Change   // every update of a row, in order per row
	// Attempts is the relays' setting of that name for each destination, and Skips names those whose head policy is SKIP.
	Attempts map[string]int32
	Skips    map[string]bool
}

// Operator is the process that did what operators do; all others are relays.
const Operator = "operator"

// Fate is what became of a writer's transaction.
type Fate int

// The fates of a transaction.
const (
	Committed Fate = iota
	RolledBack
	Unknown // its commit was never answered: the table tells
)

// Never is the moment of an end that nobody saw.
const Never = math.MaxInt64

// Written is a row as its writer knows it.
type Written struct {
	At          time.Time // of the commit's answer, for the reader
	From        time.Time // before the transaction's first statement
	ID          string
	Destination string
	Key         string // the ordering key, "" without one
	Digest      string // see [Digest]
	Fate        Fate
	// Began and Ended are ticks of one counter that all writers share, taken before the transaction's first statement and
	// after the answer to its commit. Two transactions of which one ended before the other began are ordered. Rows of one
	// transaction share both and are ordered by Place.
	Began, Ended int64
	Place        int
	// Scheduled rows take their place in their key when they become due: nothing has to wait for them, and they wait for
	// what was written before.
	Scheduled bool
	Due       time.Time // not after the moment from which a scheduled row may be delivered
	// Locked: every writer of this key holds the key's lock from before its insert to its commit. Such rows are ordered by
	// their seq.
	Locked bool
	// Bad: no broker may see it. It is parked.
	Bad bool
}

// Delivery is a message as a consumer saw it.
type Delivery struct {
	At          time.Time // of the arrival; not before it was published
	ID          string
	Destination string // whose topic or queue it came from
	Key         string
	Digest      string
}

// Row is a row of the outbox when all is quiet again.
type Row struct {
	ID            string
	Seq           int64
	Destination   string
	Status        string
	Outcome       string // of the last attempt
	Code          string // of the last failure
	Attempts      int32
	Ambiguous     int32 // ambiguous_attempts
	Doubted       bool  // first_ambiguous_at is set
	PublishedAt   bool  // published_at is set
	CrashAttempts int32
}

// Change is one update of a row.
type Change struct {
	At            time.Time // before its commit, by the same clock as all other times
	ID            string
	Code          string // of the failure, as it stands after the change
	From, To      string // statuses
	Attempts      int32  // how much the counter rose
	Ambiguous     int32
	Crashes       int32
	Skipped       bool   // skipped_at is set after the change
	Transaction   string // of the change
	By            string // the process that wrote it
	Holder        string // the process that held the row's lane then, "" for none
	VersionBefore int32
	VersionAfter  int32
}

// Digest is over everything of a message that must arrive as it was written.
func Digest(messageType, key, header string, payload []byte) string {
	h := sha256.New()
	for _, part := range []string{messageType, key, header} {
		h.Write([]byte(part))
		h.Write([]byte{0})
	}
	h.Write(payload)
	return hex.EncodeToString(h.Sum(nil))
}
