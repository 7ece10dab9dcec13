package messagingtest

import (
	"context"
	"strconv"
	"sync"
	"time"

	"github.com/backend-skeleton/relay/messaging"
	"github.com/backend-skeleton/relay/messaging/transport"
)

// Reserved headers that a hand-over writes.
const (
	headerAttempts = "msg.dlq-attempts"
	headerCategory = "msg.dlq-category"
	headerCode     = "msg.dlq-code"
)

// simpleRuntime is the smallest runtime that keeps the contract: one worker per
// unit, retries in place, hand-overs until they are confirmed. Adapters are tried
// with it; what services run is the platform's.
func simpleRuntime(ctx context.Context, c Consuming) (func(context.Context) error, error) {
	p, err := c.Adapter.Publisher(ctx, []transport.Endpoint{c.DeadLetter, c.Parking})
	if err != nil {
		return nil, err
	}
	r := &simple{Consuming: c, publisher: p, lanes: map[transport.Unit]*lane{}, joined: make(chan struct{}), draining: make(chan struct{})}
	r.over, r.cut = context.WithCancel(context.Background())
	consumer, err := c.Adapter.Subscribe(ctx, c.Subscription, r)
	if err != nil {
		r.cut()
		return nil, err
	}
	r.consumer = consumer
	close(r.joined)
	return r.stop, nil
}

type simple struct {
	Consuming
	publisher transport.Publisher
	consumer  transport.Consumer
	joined    chan struct{} // closed once consumer is set
	draining  chan struct{} // closed by stop
	over      context.Context
	cut       context.CancelFunc
	work      sync.WaitGroup

	mu      sync.Mutex // guards what follows
	lanes   map[transport.Unit]*lane
	stopped bool
}

// lane is the work of one unit in one epoch.
type lane struct {
	waiting []transport.Delivery
	running bool
	gone    bool
	idle    *sync.Cond
}

func (r *simple) Assigned(us []transport.Unit) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, u := range us {
		r.lanes[u] = &lane{idle: sync.NewCond(&r.mu)}
	}
}

func (r *simple) Deliver(d transport.Delivery) {
	r.mu.Lock()
	defer r.mu.Unlock()
	l := r.lanes[d.Unit]
	if l == nil || l.gone {
		return
	}
	l.waiting = append(l.waiting, d)
	if !l.running {
		l.running = true
		r.work.Go(func() { r.serve(l) })
	}
}

// Revoked waits for the running handler; the rest of the unit is somebody else's.
func (r *simple) Revoked(ctx context.Context, us []transport.Unit) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, u := range us {
		l := r.lanes[u]
		if l == nil {
			continue
		}
		l.gone = true
		stop := context.AfterFunc(ctx, l.idle.Broadcast)
		for l.running && ctx.Err() == nil {
			l.idle.Wait()
		}
		stop()
		delete(r.lanes, u)
	}
}

func (r *simple) Lost(us []transport.Unit) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, u := range us {
		if l := r.lanes[u]; l != nil {
			l.gone = true
			delete(r.lanes, u)
		}
	}
}

func (r *simple) serve(l *lane) {
	<-r.joined
	for {
		r.mu.Lock()
		if r.stopped || l.gone || len(l.waiting) == 0 {
			l.running = false
			l.idle.Broadcast()
			r.mu.Unlock()
			return
		}
		d := l.waiting[0]
		l.waiting = l.waiting[1:]
		r.mu.Unlock()
		if r.finish(d) {
			r.settle(d)
		}
	}
}

// finish handles a message to its end: it may be settled then.
func (r *simple) finish(d transport.Delivery) bool {
	f, err := transport.DecodeHeaders(d.Header)
	var item Item
	if err == nil {
		err = r.Codec.Decode(r.over, f.Type, f.SchemaVersion, nil, d.Value, &item)
	}
	if err != nil {
		return r.handOver(r.Parking, d, 1, *messaging.NewFailure(messaging.CategoryDeserialization, messaging.CodeMalformedPayload, "the message cannot be read"))
	}
	for attempt := 1; ; attempt++ {
		result := r.call(d, f, item, attempt)
		switch {
		case result.Verdict() == messaging.VerdictSuccess:
			return true
		case result.Verdict() == messaging.VerdictDeadLetter || attempt >= r.MaxAttempts:
			return r.handOver(r.DeadLetter, d, attempt, result.Failure())
		}
		select {
		case <-r.draining: // no further attempt begins
			return false
		default:
		}
	}
}

// call isolates a panic: it is a failure of this delivery alone.
func (r *simple) call(d transport.Delivery, f transport.WireFields, item Item, attempt int) (result messaging.Result) {
	defer func() {
		if recover() != nil {
			result = messaging.Retry(*messaging.NewFailure(messaging.CategoryProcessingTransient, messaging.CodeHandlerFailed, "the handler panicked"))
		}
	}()
	return r.Handler.Handle(r.over, messaging.Delivery[Item]{
		Envelope: messaging.Envelope[Item]{
			ID: f.ID, Type: f.Type, Version: f.SchemaVersion, Producer: f.Producer, ProducedAt: f.ProducedAt,
			OccurredAt: f.OccurredAt, ContentType: f.ContentType, OrderingKey: f.OrderingKey, PartitionKey: f.PartitionKey,
			Headers: f.Headers, Payload: item,
		},
		Meta: messaging.DeliveryMetadata{
			Destination: r.Subscription.Endpoint.Name, Consumer: r.Subscription.Consumer, Attempt: attempt,
			Redelivered: d.Redelivered, Position: &d.Position, Unit: d.Unit.Name, ReceivedAt: d.ReceivedAt,
		},
	})
}

// handOver publishes until the broker has confirmed it, under the same id; only the end of the runtime ends it earlier.
func (r *simple) handOver(to transport.Endpoint, d transport.Delivery, attempts int, f messaging.Failure) bool {
	m := d.Message
	m.Header = append(append([]transport.Header{}, d.Header...),
		transport.Header{Name: headerAttempts, Value: []byte(strconv.Itoa(attempts))},
		transport.Header{Name: headerCategory, Value: []byte(f.Category.String())},
		transport.Header{Name: headerCode, Value: []byte(f.Code)})
	for r.over.Err() == nil {
		ctx, cancel := context.WithTimeout(r.over, 5*time.Second)
		got := make(chan messaging.PublishResult, 1)
		r.publisher.Publish(ctx, to, []transport.Message{m}, func(_ int, res messaging.PublishResult) {
			select {
			case got <- res:
			default: // answered twice: not this runtime's to judge
			}
		})
		res := messaging.PublishResult{}
		select {
		case res = <-got:
		case <-r.over.Done():
		}
		cancel()
		if res.Completion == messaging.Confirmed {
			return true
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-r.over.Done():
		}
	}
	return false
}

func (r *simple) settle(d transport.Delivery) {
	answered := make(chan struct{})
	answer := sync.OnceFunc(func() { close(answered) })
	r.consumer.Settle(d, transport.Settlement{Verb: transport.Ack}, func(messaging.SettlementResult) { answer() })
	select {
	case <-answered:
	case <-r.over.Done():
	}
}

// stop ends it gracefully, and when ctx ends hard.
func (r *simple) stop(ctx context.Context) error {
	r.mu.Lock()
	r.stopped = true
	r.mu.Unlock()
	close(r.draining)
	err := r.consumer.Stop(ctx)
	idle := make(chan struct{})
	go func() {
		defer close(idle)
		r.work.Wait()
	}()
	select {
	case <-idle:
	case <-ctx.Done(): // a handler that does not end leaves its message unsettled
	}
	r.cut()
	if closing := r.consumer.Close(ctx); err == nil {
		err = closing
	}
	if closing := r.publisher.Close(ctx); err == nil {
		err = closing
	}
	return err
}
