package relay

import (
	"sync"

	"github.com/backend-skeleton/relay/messaging"
)

// registry are the lanes that this process owns, for the renewer and the scout.
type registry struct {
	mu    sync.Mutex // guards what follows
	lanes map[int32]*lane
}

func (g *registry) add(l *lane) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.lanes[l.lease.Lane] = l
}

// remove forgets l, but not another lease of the same lane.
func (g *registry) remove(l *lane) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.lanes[l.lease.Lane] == l {
		delete(g.lanes, l.lease.Lane)
	}
}

func (g *registry) get(number int32) *lane {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.lanes[number]
}

func (g *registry) all() (lanes []*lane, numbers []int32, epochs []int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for n, l := range g.lanes {
		lanes, numbers, epochs = append(lanes, l), append(numbers, n), append(epochs, l.lease.Epoch)
	}
	return lanes, numbers, epochs
}

func (g *registry) count(d messaging.DestinationName) (n int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, l := range g.lanes {
		if l.pump.d.Name == d {
			n++
		}
	}
	return n
}
