package rabbitmq

import (
	"testing"
	"time"
)

func entryOf(id string) *entry { return &entry{id: id, giveUp: time.Minute, published: time.Now()} }

func TestLedgerCountsTagsFromOneOnEveryInstance(t *testing.T) {
	for range 2 { // a second instance knows nothing of the first one's tags
		l := newLedger()
		a, b := entryOf("a"), entryOf("b")
		l.add(a)
		l.add(b)
		if a.tag != 1 || b.tag != 2 {
			t.Fatalf("tags %d and %d, want 1 and 2", a.tag, b.tag)
		}
		if l.find(2) != b || l.find(1) != a {
			t.Error("a tag finds another message")
		}
		if l.find(0) != nil || l.find(3) != nil {
			t.Error("a tag that was never given finds a message")
		}
	}
}

func TestLedgerSettlesInAnyOrder(t *testing.T) {
	l := newLedger()
	entries := make([]*entry, 5)
	for i := range entries {
		entries[i] = entryOf(string(rune('a' + i)))
		l.add(entries[i])
	}
	for _, i := range []int{3, 0, 1} {
		l.settle(entries[i])
	}
	if l.find(4) != nil {
		t.Error("a settled message is found again")
	}
	l.settle(entries[3]) // twice changes nothing
	if l.open != 2 {
		t.Errorf("%d messages open, want 2", l.open)
	}
	if rest := l.rest(); len(rest) != 2 || rest[0] != entries[2] || rest[1] != entries[4] {
		t.Errorf("the rest is %v, want the third and the fifth", rest)
	}
	if l.find(3) != entries[2] || l.find(5) != entries[4] {
		t.Error("a tag finds another message after earlier ones were settled")
	}
}

// B14: a return is never pinned on another message.
func TestB14_LedgerPinsAReturnOnItsMessageAlone(t *testing.T) {
	l := newLedger()
	a, b := entryOf("a"), entryOf("b")
	l.add(a)
	l.add(b)
	if l.markReturned("c") || a.returned || b.returned {
		t.Error("a return with a foreign id is pinned on a message")
	}
	if !l.markReturned("b") || a.returned || !b.returned {
		t.Error("a return is not pinned on its own message")
	}
	l.settle(b)
	if l.markReturned("b") {
		t.Error("a return is pinned on a message that has its verdict")
	}
}

func TestLedgerAdmits(t *testing.T) {
	suspect := func(id string) *entry { e := entryOf(id); e.suspect = true; return e }
	cases := map[string]struct {
		open   []*entry
		e      *entry
		proven bool
		want   bool
	}{
		"first of an instance":             {nil, entryOf("a"), false, true},
		"second before the first answer":   {[]*entry{entryOf("a")}, entryOf("b"), false, false},
		"second on a proven instance":      {[]*entry{entryOf("a")}, entryOf("b"), true, true},
		"window full":                      {[]*entry{entryOf("a"), entryOf("b"), entryOf("c")}, entryOf("d"), true, false},
		"the same id twice":                {[]*entry{entryOf("a")}, entryOf("a"), true, false},
		"suspect beside another":           {[]*entry{entryOf("a")}, suspect("b"), true, false},
		"another beside a suspect":         {[]*entry{suspect("a")}, entryOf("b"), true, false},
		"suspect alone":                    {nil, suspect("a"), true, true},
		"without id beside another":        {[]*entry{entryOf("a")}, entryOf(""), true, false},
		"another beside one without id":    {[]*entry{entryOf("")}, entryOf("b"), true, false},
		"without id beside one without id": {[]*entry{entryOf("")}, entryOf(""), true, false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			l := newLedger()
			for _, e := range c.open {
				l.add(e)
			}
			if got := l.admits(c.e, 3, c.proven); got != c.want {
				t.Errorf("admits = %v, want %v", got, c.want)
			}
		})
	}
}

func TestLedgerAdmitsAfterTheLonelyOneIsAnswered(t *testing.T) {
	l := newLedger()
	alone := entryOf("")
	l.add(alone)
	l.settle(alone)
	l.add(entryOf("a"))
	if !l.admits(entryOf("b"), 3, true) {
		t.Error("still lonely after the answer")
	}
}

func TestLedgerOverdue(t *testing.T) {
	l := newLedger()
	e := entryOf("a")
	l.add(e)
	if l.overdue(e.published.Add(59 * time.Second)) {
		t.Error("overdue before its time")
	}
	if !l.overdue(e.published.Add(time.Minute)) {
		t.Error("not overdue at its time")
	}
	l.settle(e)
	if l.overdue(e.published.Add(time.Hour)) {
		t.Error("overdue although answered")
	}
}
