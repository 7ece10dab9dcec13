package relay

import (
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/backend-skeleton/relay/internal/outbox"
)

// unsent is a key with one row in a call, and a pump that nothing else hangs on.
func unsent(blocked bool) (*pump, *key, *flight) {
	l := &lane{ids: map[uuid.UUID]struct{}{}, keys: map[string]*key{}, last: map[string]int64{}, open: 1}
	k := l.key("k")
	k.blocked, k.sent = blocked, 1
	f := &flight{row: &outbox.Row{MessageID: uuid.New(), Seq: 7}, lane: l, key: k, batch: &batch{lo: 7, hi: 7, left: 1, seqs: []int64{7}}}
	l.batches = []*batch{f.batch}
	return &pump{due: map[*lane]bool{}, flights: map[uuid.UUID]*flight{f.row.MessageID: f}, unresolved: map[uuid.UUID]*flight{}}, k, f
}

// A key becomes blocked while a row of it is on its way, by a redrive of what stood before it or by a late answer, so that the
// next row of the key is set aside. Then it turns out that the first was never sent. It waits in the table with the other: if
// it stayed as it was, the younger one would be the head.
func TestARowThatWasNotSentWaitsWithItsBlockedKey(t *testing.T) {
	t.Parallel()
	for name, letGo := range map[string]func(p *pump, k *key, f *flight){
		"not sent by the broker": func(p *pump, k *key, f *flight) {
			f.end = disposition{asItWas: true}
			k.results = []*flight{f}
			p.settle(k)
		},
		"not handed over": func(p *pump, _ *key, f *flight) {
			f.counted = true
			p.drop([]*flight{f})
		},
	} {
		p, k, f := unsent(true)
		letGo(p, k, f)
		if len(p.holds) != 1 || p.holds[0] != f || k.unrecorded != 1 || f.lane.idle() {
			t.Errorf("%s: it is not set aside, or its lane may be given back before it is", name)
		}
		if k.lookable(time.Now().Add(time.Hour)) {
			t.Errorf("%s: the key is looked at before its row stands in the table", name)
		}

		p, k, f = unsent(false)
		letGo(p, k, f)
		if len(p.holds) != 0 || len(p.flights) != 0 || !f.lane.mustDry {
			t.Errorf("%s: behind no blocked key it is not read again", name)
		}

		p, k, f = unsent(true)
		f.lane.gone = true
		letGo(p, k, f)
		if len(p.holds) != 0 || len(p.flights) != 0 {
			t.Errorf("%s: a row of a lost lane stays in hand", name)
		}
	}
}
