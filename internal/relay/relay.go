package relay

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/backend-skeleton/relay/internal/outbox"
	"github.com/backend-skeleton/relay/messaging"
	"github.com/backend-skeleton/relay/messaging/transport"
)

// ErrRowsLeft says that a run until empty ended at its time limit with rows left to send.
var ErrRowsLeft = errors.New("rows are left that could not be sent in time")

// Relay moves the rows of its destinations until it is stopped.
type Relay struct {
	c        Config
	serves   []string
	brokers  map[string]*broker
	pumps    []*pump
	registry registry
	woken    chan struct{}

	// publishing ends when the drain time for answers is over.
	publishing     context.Context
	stopPublishing context.CancelFunc

	born     time.Time
	solo     atomic.Pointer[pump] // the pump whose row is alone on the wire
	running  atomic.Bool          // brokers and pumps are complete
	draining atomic.Bool
	lastGood atomic.Int64 // last good statement, as nanoseconds since born
	robAfter atomic.Int64 // expired lanes of others are left alone before
	polled   atomic.Int64 // last finished look for work
	claimed  atomic.Int64 // last claim that found rows
	server   time.Time    // when it started that was spoken to last, by its own clock; the scout's
	database database     // what is wrong with it
}

// New makes a relay; it touches neither database nor broker.
func New(c Config) (*Relay, error) {
	c.setDefaults()
	c.Hooks.setDefaults()
	if err := c.validate(); err != nil {
		return nil, err
	}
	r := &Relay{c: c, brokers: map[string]*broker{}, woken: make(chan struct{}, 1), born: time.Now()}
	r.registry.lanes = map[int32]*lane{}
	r.yieldToClaims()
	r.publishing, r.stopPublishing = context.WithCancel(context.Background())
	for i := range c.Destinations {
		r.serves = append(r.serves, string(c.Destinations[i].Name))
	}
	return r, nil
}

// since is the monotonic time of this process.
func (r *Relay) since() time.Duration { return time.Since(r.born) }

func (r *Relay) jitter() float64 { return rand.Float64() }

// Run until ctx ends, then drain: nothing more is claimed, what is on its way gets its outcome recorded, what is left
// unconfirmed at the end is AMBIGUOUS, lanes are given back. The error says why it could not start, or that not all
// outcomes could be recorded.
func (r *Relay) Run(ctx context.Context) error { return r.run(ctx, false) }

// RunUntilEmpty runs until nothing is left to send in the served destinations: rows that are not due, that wait behind
// a head which is not due, or that are parked are not waited for. After timeout it gives up with [ErrRowsLeft].
func (r *Relay) RunUntilEmpty(ctx context.Context, timeout time.Duration) error {
	limited, cancel := context.WithTimeoutCause(ctx, timeout, ErrRowsLeft)
	defer cancel()
	err := r.run(limited, true)
	if err == nil && errors.Is(context.Cause(limited), ErrRowsLeft) {
		return ErrRowsLeft
	}
	return err
}

func (r *Relay) run(ctx context.Context, untilEmpty bool) error {
	defer r.stopPublishing()
	if err := r.start(ctx); err != nil {
		return err
	}
	hard, stopHard := context.WithCancel(context.WithoutCancel(ctx))
	defer stopHard()
	working, stopWorking := context.WithCancel(ctx)
	defer stopWorking()

	var pumping, helping sync.WaitGroup
	byName := make(map[string]*pump, len(r.pumps))
	for _, p := range r.pumps {
		byName[string(p.d.Name)] = p
		pumping.Go(func() { p.run(working, hard) })
	}
	helping.Go(func() { r.renew(hard) })
	helping.Go(func() { r.listen(working) })
	helping.Go(func() { r.retain(working) })
	for _, b := range r.brokers {
		helping.Go(func() { r.watch(working, b) })
	}
	s := &scout{r: r, pumps: byName, free: map[int32]time.Time{}, stuck: map[int32]int{}}
	s.run(working, untilEmpty)

	stopWorking()
	err := r.drain(&pumping, stopHard)
	stopHard()
	helping.Wait()
	return err
}

// start says who this is, and opens the publishers. It fails fast without a database or with a wrong schema.
func (r *Relay) start(ctx context.Context) error {
	names := make([]string, 0, len(r.c.Known)+len(r.serves))
	names = append(append(names, r.c.Known...), r.serves...)
	if err := r.c.Store.Register(ctx, names); err != nil {
		return fmt.Errorf("relay: %w", err)
	}
	if err := r.c.Store.Heartbeat(ctx, r.serves, false); err != nil {
		return fmt.Errorf("relay: %w", err)
	}
	started, young, err := r.c.Store.ServerStarted(ctx)
	if err != nil {
		return fmt.Errorf("relay: %w", err)
	}
	r.server = started
	r.lastGood.Store(int64(r.since()))
	if young { // its other relays may not have had the time to renew
		r.spareOthers()
	}
	endpoints := map[string][]transport.Endpoint{}
	for i := range r.c.Destinations {
		d := &r.c.Destinations[i]
		endpoints[d.Broker] = append(endpoints[d.Broker], d.Endpoint)
	}
	for name, es := range endpoints {
		b, err := r.openBroker(ctx, name, r.c.Brokers[name], es, len(es))
		if err != nil {
			r.closePublishers(ctx)
			return fmt.Errorf("relay: broker %s: %w", name, err)
		}
		r.brokers[name] = b
	}
	for i := range r.c.Destinations {
		d := &r.c.Destinations[i]
		r.pumps = append(r.pumps, newPump(r, d, r.brokers[d.Broker]))
	}
	r.running.Store(true)
	return nil
}

// drain ends the run within the drain time, whatever brokers and database do.
func (r *Relay) drain(pumping *sync.WaitGroup, stopHard context.CancelFunc) error {
	r.draining.Store(true)
	begin := time.Now()
	ctx, cancel := context.WithTimeout(context.Background(), r.c.Drain)
	defer cancel()
	_ = r.c.Store.Heartbeat(ctx, r.serves, true) // so that others take over the share at once; the renewer repeats it

	// Answers may take most of the time; what is unanswered then is ambiguous and still gets recorded.
	answers := time.AfterFunc(r.c.Drain*6/10, r.stopPublishing)
	defer answers.Stop()
	for _, p := range r.pumps {
		select {
		case <-p.drainedNow:
		case <-ctx.Done():
		}
	}
	left := max(r.c.Drain-time.Since(begin), 0)
	closing, cancelClosing := context.WithTimeout(context.Background(), min(max(left/2, time.Second), 5*time.Second))
	r.closePublishers(closing)
	cancelClosing()
	for _, p := range r.pumps {
		p.finish()
	}
	done := make(chan struct{})
	go func() {
		pumping.Wait()
		close(done)
	}()
	err := error(nil)
	select {
	case <-done:
	case <-ctx.Done():
		stopHard()
		<-done
		err = errors.New("relay: the drain time ended before every outcome was recorded; those rows are claimed again after their lease")
	}
	last, cancelLast := context.WithTimeout(context.Background(), min(max(r.c.Drain-time.Since(begin), time.Second), 5*time.Second))
	defer cancelLast()
	return errors.Join(err, r.leave(last, err == nil))
}

// leave gives the lanes back, if nothing of them is open, and takes this process out of the fleet.
func (r *Relay) leave(ctx context.Context, clean bool) error {
	if lanes, _, _ := r.registry.all(); clean && len(lanes) > 0 {
		steps := make([]outbox.Step, len(lanes))
		for i, l := range lanes {
			steps[i] = l.step()
		}
		unchanged, err := r.c.Store.GiveBack(ctx, steps)
		if err != nil {
			return fmt.Errorf("relay: %w", err)
		}
		for _, u := range unchanged {
			r.odd("give back lanes", u)
		}
	}
	if err := r.c.Store.Leave(ctx); err != nil { // its heartbeat ends, that says the same
		r.c.Hooks.Trouble("leave the fleet", err)
	}
	return nil
}

// closePublishers of all brokers at once, so that one that hangs does not take the time of the others.
func (r *Relay) closePublishers(ctx context.Context) {
	var wg sync.WaitGroup
	for _, b := range r.brokers {
		wg.Go(func() {
			if err := b.publisher.Close(ctx); err != nil {
				r.c.Logger.Warn("a publisher did not close in time", "broker", b.name, "error", err)
			}
		})
	}
	wg.Wait()
}

// listen wakes the scout, and the pumps if they are few, when a writer says that it committed.
func (r *Relay) listen(ctx context.Context) {
	if r.c.Wake == nil {
		return
	}
	for tries := 1; ctx.Err() == nil; tries++ {
		err := r.c.Wake(ctx, r.wakeUp)
		if ctx.Err() != nil {
			return
		}
		r.c.Hooks.Trouble("listen for wake-ups", err)
		select {
		case <-time.After(quiet(tries)):
		case <-ctx.Done():
		}
	}
}

// directWake is up to how many pumps a wake-up goes to at once, instead of only to those with work.
const directWake = 4

func (r *Relay) wakeUp() {
	select {
	case r.woken <- struct{}{}:
	default:
	}
	if len(r.pumps) <= directWake {
		for _, p := range r.pumps {
			p.box.post(p.checkAll)
		}
	}
}

func (r *Relay) wakeBroker(name string) {
	for _, p := range r.pumps {
		if p.broker.name == name {
			p.box.wake()
		}
	}
}

// Owned lanes of a destination.
func (r *Relay) Owned(d messaging.DestinationName) int { return r.registry.count(d) }
