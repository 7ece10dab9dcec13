package messagingtest

import (
	"container/heap"
	"slices"
	"time"

	"github.com/backend-skeleton/relay/messaging/transport"
)

type groupName struct{ place, group string }

// group is everybody who reads a place together: a consumer group of a topic, or
// all consumers of a queue.
type group struct {
	place *place
	// shared: the members compete for the messages of one unit. Else a unit belongs
	// to one member at a time.
	shared  bool
	cursors []*cursor
	members []*consumer
}

// cursor is how far a group is with a unit.
type cursor struct {
	g      *group
	u      *unit
	next   int // the first offset that was never delivered
	back   offsets
	later  []waiting
	states map[int]*state
	owner  *hold // of a unit that is not shared
}

type waiting struct {
	due    time.Time
	offset int
}

// state is what became of an offset that was delivered.
type state struct {
	by          *hold // who has it in hand
	failed      int
	redelivered bool
	settled     bool
}

// hold is a unit in the hands of a consumer: one epoch.
type hold struct {
	c       *consumer
	cur     *cursor
	unit    transport.Unit
	inHand  map[int]int64 // bytes by offset
	bytes   int64
	paused  bool
	leaving bool // asked back
	asked   bool // and the consumer was told
	dead    bool
}

// groupOf finds or makes the group of a subscription to an endpoint.
func (b *Broker) groupOf(e transport.Endpoint, s transport.Subscription) *group {
	p := b.placeOf(e)
	name := groupName{place: p.name}
	if p.topic {
		name.group = string(s.Consumer)
		if own, ok := s.Endpoint.Consumer["group"].(string); ok && own != "" {
			name.group = own
		}
	}
	g := b.groups[name]
	if g == nil {
		g = &group{place: p, shared: !p.topic && !s.Strict}
		for _, u := range p.units {
			g.cursors = append(g.cursors, &cursor{g: g, u: u, states: map[int]*state{}})
		}
		b.groups[name] = g
	}
	return g
}

// balance asks units back from the members that should not have them any more.
func (g *group) balance() {
	for i, cur := range g.cursors {
		if !g.shared && cur.owner != nil && cur.owner.c != g.target(i) {
			cur.owner.leaving = true
		}
	}
}

func (g *group) target(i int) *consumer {
	if len(g.members) == 0 {
		return nil
	}
	return g.members[i%len(g.members)]
}

func (g *group) drop(c *consumer) {
	g.members = slices.DeleteFunc(g.members, func(other *consumer) bool { return other == c })
	g.balance()
}

// take gives the next offset that may be delivered now.
func (cur *cursor) take(now time.Time) (offset int, found bool) {
	cur.later = slices.DeleteFunc(cur.later, func(w waiting) bool {
		if w.due.After(now) {
			return false
		}
		heap.Push(&cur.back, w.offset)
		return true
	})
	if len(cur.back) > 0 {
		return heap.Pop(&cur.back).(int), true
	}
	for cur.next < len(cur.u.items) {
		offset := cur.next
		cur.next++
		if due := cur.u.items[offset].due; due.After(now) {
			cur.later = append(cur.later, waiting{due, offset})
			continue
		}
		return offset, true
	}
	return 0, false
}

// state gives what is known about an offset that is about to be delivered.
func (cur *cursor) state(offset int) *state {
	st := cur.states[offset]
	if st == nil {
		st = &state{}
		cur.states[offset] = st
	}
	return st
}

// giveBack makes an offset deliverable again, after a delay if there is one.
func (b *Broker) giveBack(cur *cursor, offset int, delay time.Duration) {
	st := cur.states[offset]
	st.by, st.redelivered = nil, true
	if delay > 0 {
		cur.later = append(cur.later, waiting{b.settings.clock.Now().Add(delay), offset})
		b.settings.clock.AfterFunc(delay, b.wake)
		return
	}
	heap.Push(&cur.back, offset)
}

// failed counts a failed delivery and gives the message back, or moves it where the broker itself puts what failed too often.
func (b *Broker) failed(cur *cursor, offset int, delay time.Duration) {
	st, p := cur.states[offset], cur.g.place
	if st.failed++; b.able.NativeDeadLetter {
		if l, ok := b.settings.limits[p.name]; ok && st.failed > l.limit {
			st.by, st.settled = nil, true
			b.append(b.place(l.deadLetter, p.topic), &item{m: clone(cur.u.items[offset].m)})
			return
		}
	}
	b.giveBack(cur, offset, delay)
}

// end takes a unit from its consumer. What was in hand is delivered again; a queue counts it as failed if the channel broke.
func (h *hold) end(broke bool) {
	if h.dead {
		return
	}
	h.dead = true
	b := h.c.b
	for _, offset := range sortedKeys(h.inHand) {
		if broke && b.able.PerMessageSettlement && !h.cur.g.place.topic {
			b.failed(h.cur, offset, 0)
		} else {
			b.giveBack(h.cur, offset, 0)
		}
	}
	h.inHand = nil
	if h.cur.owner == h {
		h.cur.owner = nil
	}
	h.c.holds = slices.DeleteFunc(h.c.holds, func(other *hold) bool { return other == h })
	b.tell()
}

// offsets is a heap: what comes back is delivered in the old order.
type offsets []int

func (o offsets) Len() int           { return len(o) }
func (o offsets) Less(i, j int) bool { return o[i] < o[j] }
func (o offsets) Swap(i, j int)      { o[i], o[j] = o[j], o[i] }
func (o *offsets) Push(x any)        { *o = append(*o, x.(int)) }
func (o *offsets) Pop() any {
	last := (*o)[len(*o)-1]
	*o = (*o)[:len(*o)-1]
	return last
}

func sortedKeys(m map[int]int64) []int {
	keys := make([]int, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
