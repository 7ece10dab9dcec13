package relay

import (
	"testing"
	"time"
)

func TestLanesThatHadWorkAreReadAgain(t *testing.T) {
	t.Parallel()
	now := time.Now()
	l := &lane{workAt: now}
	p := &pump{r: &Relay{pumps: make([]*pump, 1)}, lanes: []*lane{l}}
	read := func(after time.Duration) bool {
		l.check, p.wakeAt = false, time.Time{}
		p.again(now.Add(after))
		return l.check
	}
	if !read(0) || !p.wakeAt.Equal(now.Add(busyPoll)) {
		t.Error("a lane that had work is not read again soon")
	}
	if read(busyPoll / 2) {
		t.Error("it is read again too soon")
	}
	if !read(busyPoll) {
		t.Error("it is read again only once")
	}
	if read(recent) || !p.wakeAt.IsZero() {
		t.Error("it is read again although it had no work for long")
	}
	p.r.pumps = make([]*pump, 100*directWake)
	l.workAt = now.Add(time.Minute)
	if !read(time.Minute) || read(time.Minute+10*busyPoll) {
		t.Error("many pumps read as often as one")
	}
}
