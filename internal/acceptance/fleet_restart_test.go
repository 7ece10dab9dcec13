package acceptance

import (
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/backend-skeleton/relay/internal/brokertest"
	"github.com/backend-skeleton/relay/internal/testenv"
)

// fleetLease is so long that a lane which waited for the end of a lease cannot be taken for one that was handed over. It
// is renewed every third of it.
const fleetLease = 30 * time.Second

// aFleet is a world with both brokers, each keeping the order of keys. They answer late, so that there are always rows
// on their way.
func aFleet(t *testing.T) (*world, map[string]*brokertest.Capture) {
	t.Helper()
	w := newWorld(t, withKafka(true, brokertest.Partitions(6)), withRabbit(true))
	w.unhurried()
	w.set("relay", m{"lease": fleetLease.String(), "drain": "20s"})
	w.destinationFile(rabbitDestination)["guarantees"] = m{"ordering": "KEY"}
	w.destinationFile(rabbitDestination)["outbox"] = m{"keyless": "allow"}
	captures := map[string]*brokertest.Capture{}
	for _, d := range both {
		captures[d] = w.capture(d)
	}
	for _, p := range []*brokertest.Proxy{w.kafkaProxy, w.rabbitProxy} {
		p.Delay(200*time.Millisecond, brokertest.ToClient)
	}
	return w, captures
}

// flow adds rows to both destinations all the time, over keys that reach every lane, and watches the lanes.
type flow struct {
	w    *world
	once sync.Once
	stop chan struct{}
	done sync.WaitGroup
	ids  map[string][]string
	// gap is the longest time for which a lane with rows to send was seen without a live owner.
	gap time.Duration
}

// flow begins with the first rows committed.
func (w *world) flow(rows int) *flow {
	f := &flow{w: w, stop: make(chan struct{}), ids: map[string][]string{}}
	w.t.Cleanup(func() { f.end() })
	f.insert(rows, 0)
	f.done.Go(func() {
		tick := time.NewTicker(100 * time.Millisecond)
		defer tick.Stop()
		since := map[string]time.Time{}
		for n := rows; ; n += rows {
			select {
			case <-f.stop:
				return
			case <-tick.C:
			}
			f.insert(rows, n)
			since = f.look(since)
		}
	})
	return f
}

func (f *flow) insert(rows, from int) {
	for _, d := range both {
		f.ids[d] = append(f.ids[d], f.w.query(`select messaging_outbox_add($1, 'order.created', 'shop', '{}', ordering_key => 'k' || ($3::int + i) % 200)::text
		  from generate_series(1, $2) i`, d, rows, from)...)
	}
}

// look notes since when lanes have been without a live owner.
func (f *flow) look(since map[string]time.Time) map[string]time.Time {
	now, free := time.Now(), map[string]time.Time{}
	for _, lane := range f.w.query(`select l.lane::text from messaging_outbox_lane l where (l.owner is null or l.lease_until < clock_timestamp()
	    or not exists (select from messaging_outbox_relay r where r.id = l.owner))
	  and exists (select from messaging_outbox o where o.lane = l.lane and o.status = 'PENDING')`) {
		begin, ok := since[lane]
		if !ok {
			begin = now
		}
		free[lane] = begin
		f.gap = max(f.gap, now.Sub(begin))
	}
	return free
}

// end stops the writing.
func (f *flow) end() {
	f.once.Do(func() { close(f.stop) })
	f.done.Wait()
}

// wasClean ends the flow and fails unless every row went out once, in order and at the first try, and no lane stood without
// an owner for longer than the pause between two renewals.
func (f *flow) wasClean(captures map[string]*brokertest.Capture) {
	w := f.w
	w.t.Helper()
	f.end()
	w.published(2*time.Minute, len(f.ids[kafkaDestination])+len(f.ids[rabbitDestination]))
	for _, d := range both {
		captures[d].WaitIDs(w.t, len(f.ids[d]), 20*time.Second)
		once(w.t, captures[d], f.ids[d])
		inOrder(w.t, captures[d], f.ids[d])
	}
	if n := w.number(`select count(*) from messaging_outbox where attempts <> 1 or ambiguous_attempts > 0`); n > 0 {
		w.t.Errorf("%d rows were not sent at the first try", n)
	}
	if f.gap > mostGap() {
		w.t.Errorf("a lane was without owner for %v, longer than the %v between two renewals, by more than a busy machine needs", f.gap, fleetLease/3)
	}
	w.t.Logf("%d rows for each broker; no lane was without owner for longer than %v", len(f.ids[kafkaDestination]), f.gap)
}

// shares are the numbers of lanes that the relays own of a destination, the most first.
func (w *world) shares(destination string) (lanes []int) {
	w.t.Helper()
	for _, n := range w.query(`select count(*)::text from messaging_outbox_lane where destination = $1 and owner is not null group by owner
	  order by count(*) desc`, destination) {
		i, err := strconv.Atoi(n)
		if err != nil {
			w.t.Fatal(err)
		}
		lanes = append(lanes, i)
	}
	return lanes
}

// shared waits until so many relays own lanes of both destinations.
func (w *world) shared(relays int) {
	w.t.Helper()
	for _, d := range both {
		brokertest.Eventually(w.t, time.Minute, fmt.Sprintf("%d relays to own lanes of %s", relays, d), func() bool { return len(w.shares(d)) == relays })
	}
}

// Four relays are restarted one after the other while messages flow to both brokers, as a new version is rolled out:
// no message comes twice, no key loses its order, and no lane stands still.
func TestFleet_RollingRestartIsNotSeen(t *testing.T) {
	t.Parallel()
	w, captures := aFleet(t)
	program, file := plainRelay(t), w.write()
	f := w.flow(count(40, 10))
	var relays []*process
	for range 4 {
		relays = append(relays, w.startProgram(program, file))
	}
	w.shared(4)
	for range count(3, 1) {
		for i := range relays {
			if code := relays[i].stop(30 * time.Second); code != 0 {
				t.Errorf("relay %d ended with %d, want 0", i, code)
			}
			relays[i] = w.startProgram(program, file)
			w.shared(4)
		}
	}
	f.wasClean(captures)
}

// A relay that joins gets its share of the lanes, and the lanes of one that leaves go to the others, all while messages
// flow: nothing comes twice, no key loses its order, and no lane stands still.
func TestFleet_LanesMoveByFairShare(t *testing.T) {
	t.Parallel()
	w, captures := aFleet(t)
	program, file := plainRelay(t), w.write()
	f := w.flow(count(40, 10))
	even := func(relays int) {
		t.Helper()
		w.shared(relays)
		for _, d := range both { // which lanes have work changes all the time, so nobody's share is exact
			brokertest.Eventually(t, time.Minute, fmt.Sprintf("%d relays to share the lanes of %s evenly", relays, d), func() bool {
				shares := w.shares(d)
				return len(shares) == relays && shares[relays-1] >= shares[0]/2
			})
		}
	}
	var relays []*process
	for n := range 3 {
		relays = append(relays, w.startProgram(program, file))
		even(n + 1)
	}
	for n := 2; n >= 1; n-- {
		if code := relays[n].stop(30 * time.Second); code != 0 {
			t.Errorf("a relay ended with %d, want 0", code)
		}
		even(n)
	}
	f.wasClean(captures)
}

// mostGap is the pause between two renewals; in the short tier, where the machine may stand still, a lease more.
func mostGap() time.Duration {
	if testenv.Full() {
		return fleetLease / 3
	}
	return testenv.Within(fleetLease/3 + fleetLease)
}
