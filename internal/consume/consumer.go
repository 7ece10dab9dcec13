package consume

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/backend-skeleton/relay/messaging"
	"github.com/backend-skeleton/relay/messaging/transport"
)

// Consumer is one consumer of a process. Make it with [New], begin with Start, end with Stop.
type Consumer struct {
	c      Config
	routes map[routeKey]*Route
	box    *mailbox
	edge   transport.Consumer
	begun  chan struct{} // closed once edge is set
	quit   chan struct{} // ends the dispatcher
	work   sync.WaitGroup

	living context.Context // of hand-overs: ends with the drain
	die    context.CancelFunc

	// What follows belongs to the dispatcher.
	units                 map[transport.Unit]*unit
	one                   *lane // of a consumer that is ordered as a whole
	ready                 fifo[*lane]
	running               int
	waiting               int // deliveries that no handler has
	bytes                 int64
	blocked               int // waits that the whole consumer stands still for
	pauses                reasons
	repaused              bool
	draining              bool
	handing, handingLater int // publishes on their way, and those that are tried again later
	handNext              fifo[*handover]
	settling              fifo[*item] // in the order in which they were sent
	drained               []chan struct{}
	waits                 map[*time.Timer]struct{}
	spare                 []*job // at most as many as ran at once

	mu     sync.Mutex // guards what follows
	status Status
	jobs   map[*job]struct{}
	state  state
}

type state uint8

const (
	created state = iota
	started
	ended
)

// New checks the settings; nothing is connected yet.
func New(c Config) (*Consumer, error) {
	if err := c.complete(); err != nil {
		return nil, fmt.Errorf("%w: consumer %s: %w", messaging.ErrConfiguration, c.Name, err)
	}
	k := &Consumer{
		c: c, routes: map[routeKey]*Route{}, box: newMailbox(), begun: make(chan struct{}), quit: make(chan struct{}),
		units: map[transport.Unit]*unit{}, pauses: reasons{}, waits: map[*time.Timer]struct{}{}, jobs: map[*job]struct{}{},
	}
	for i := range k.c.Routes {
		k.routes[k.c.Routes[i].key()] = &k.c.Routes[i]
	}
	if c.Ordering == messaging.OrderingDestination {
		k.one = &lane{}
	}
	k.living, k.die = context.WithCancel(context.Background())
	return k, nil
}

// Name is the consumer's name.
func (k *Consumer) Name() messaging.ConsumerName { return k.c.Name }

// Start subscribes. Deliveries come until Stop.
func (k *Consumer) Start(ctx context.Context) error {
	k.mu.Lock()
	if k.state != created {
		k.mu.Unlock()
		return k.failed("start", messaging.ErrClosed, errors.New("it was started already"))
	}
	k.state = started
	k.mu.Unlock()
	k.work.Go(k.dispatch)
	read := k.c.Stages
	if k.c.StagesReturn {
		read = nil
	}
	edge, err := k.c.Adapter.Subscribe(ctx, transport.Subscription{
		Endpoint: k.c.Endpoint, Consumer: k.c.Name, Prefetch: k.c.Prefetch, MaxBufferedBytes: k.c.MaxBufferedBytes,
		Strict: k.c.strict() && k.c.Concurrency == 1, Extra: read,
	}, (*sink)(k))
	if err != nil {
		k.end()
		return k.failed("subscribe", messaging.ErrConsumer, err)
	}
	k.edge = edge
	close(k.begun)
	return nil
}

// Stop drains: no further delivery, handler or retry begins; handlers that run may end, what they gave is handed over and
// settled. When ctx is over handlers' contexts end, and what is not finished stays unsettled: the error names how many.
func (k *Consumer) Stop(ctx context.Context) error {
	k.mu.Lock()
	if k.state != started {
		k.state = ended
		k.mu.Unlock()
		k.die()
		return nil
	}
	k.state = ended
	k.mu.Unlock()

	limited, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(farewell, cancel) })()
	done := make(chan struct{})
	k.box.post(func() { k.drain(done) })
	errs := []error{k.edge.Stop(ctx)}
	left := 0
	select {
	case <-done:
	case <-ctx.Done():
		count := make(chan int, 1)
		k.box.post(func() { count <- k.abandon() })
		select {
		case left = <-count:
		case <-limited.Done(): // the dispatcher waits for the adapter
		}
	}
	errs = append(errs, k.edge.Close(limited))
	k.end()
	if left > 0 {
		errs = append(errs, fmt.Errorf("%d deliveries stay unsettled, they come again", left))
	}
	if err := errors.Join(errs...); err != nil {
		return k.failed("stop", messaging.ErrConsumer, err)
	}
	return nil
}

// farewell bounds the close of the subscription once everything is drained.
const farewell = 5 * time.Second

// end stops the dispatcher.
func (k *Consumer) end() {
	k.die()
	close(k.quit)
	k.work.Wait()
	for t := range k.waits {
		t.Stop()
	}
	for _, u := range k.units {
		u.cancel(messaging.ErrClosed)
	}
	k.mu.Lock()
	k.state = ended
	k.mu.Unlock()
}

func (k *Consumer) failed(op string, kind, err error) error {
	return &messaging.Error{Op: op + " consumer " + string(k.c.Name), Kind: kind, Destination: k.c.Endpoint.Name, Cause: err}
}

// Pause and Resume are a [messaging.PauseController].
var _ messaging.PauseController = (*Consumer)(nil)

// Pause adds a reason not to start handlers, for the whole consumer or for the units that it names.
func (k *Consumer) Pause(reason string, units ...string) error {
	return k.control(reason, func() { k.setPause(reason, units, true) })
}

// Resume takes a reason away.
func (k *Consumer) Resume(reason string, units ...string) error {
	return k.control(reason, func() { k.setPause(reason, units, false) })
}

func (k *Consumer) control(reason string, do func()) error {
	if reason == "" {
		return k.failed("pause", messaging.ErrValidation, errors.New("a pause has a reason"))
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.state == ended {
		return k.failed("pause", messaging.ErrClosed, nil)
	}
	k.box.post(do)
	return nil
}

// Status is what a consumer is doing.
type Status struct {
	// Units that are assigned, Waiting deliveries, Running handlers, Stuck ones among them, and HandingOver publishes.
	Units, Waiting, Running, Stuck, HandingOver int
	// Paused are the reasons to pause and the units that they hold, "" for the whole consumer.
	Paused map[string][]string
	// Draining says that a stop was asked for.
	Draining bool
}

// Ready tells whether the consumer works: nothing is stuck, and no unit waits for somebody's help.
func (s Status) Ready() bool { return s.Reason() == "" }

// Reason is why it does not work, "" where it does: "stuck", or a reason to pause that needs somebody's help.
func (s Status) Reason() string {
	if s.Stuck > 0 {
		return "stuck"
	}
	for _, reason := range []string{reasonNoPlace, reasonExhausted, reasonHandover, reasonOutage} {
		if s.Paused[reason] != nil {
			return reason
		}
	}
	return ""
}

// Status gives what the consumer did a moment ago.
func (k *Consumer) Status() Status {
	k.mu.Lock()
	defer k.mu.Unlock()
	s := k.status
	s.Paused = maps.Clone(s.Paused)
	for j := range k.jobs {
		if time.Since(j.began) > k.c.HandlerTimeout+k.c.Drain {
			s.Stuck++
		}
	}
	return s
}

// publishStatus makes the dispatcher's state visible.
func (k *Consumer) publishStatus() {
	var paused map[string][]string
	if k.repaused {
		paused = k.pausesByReason()
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.repaused {
		k.status.Paused, k.repaused = paused, false
	}
	k.status.Units, k.status.Waiting, k.status.Running = len(k.units), k.waiting, k.running
	k.status.HandingOver, k.status.Draining = k.handing+k.handingLater+k.handNext.len(), k.draining
}

func (k *Consumer) pausesByReason() map[string][]string {
	out := map[string][]string{}
	for reason := range k.pauses {
		out[reason] = append(out[reason], "")
	}
	for _, u := range k.units {
		for reason := range u.pauses {
			out[reason] = append(out[reason], u.Name)
		}
	}
	for _, names := range out {
		slices.Sort(names)
	}
	return out
}
