package messagingtest

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/backend-skeleton/relay/messaging"
	"github.com/backend-skeleton/relay/messaging/transport"
)

var (
	topic = transport.Endpoint{Name: "order-events", Physical: map[string]string{"topic": "orders"}}
	queue = transport.Endpoint{Name: "email-work", Physical: map[string]string{"queue": "mails"}}
)

// record is a sink that writes down its calls. What it is told to answer at once, it answers.
type record struct {
	mu    sync.Mutex // guards what follows
	calls []string
	got   []transport.Delivery
	units []transport.Unit
	now   func(transport.Delivery)
}

func (r *record) Assigned(u []transport.Unit) { r.call("assigned", u) }

func (r *record) Lost(u []transport.Unit) { r.call("lost", u) }

func (r *record) Revoked(_ context.Context, u []transport.Unit) { r.call("revoked", u) }

func (r *record) call(what string, us []transport.Unit) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, u := range us {
		r.calls = append(r.calls, what+" "+u.Name)
		if what == "assigned" {
			r.units = append(r.units, u)
		}
	}
}

func (r *record) Deliver(d transport.Delivery) {
	r.mu.Lock()
	r.got = append(r.got, d)
	now := r.now
	r.mu.Unlock()
	if now != nil {
		now(d)
	}
}

func (r *record) deliveries() []transport.Delivery {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.got)
}

func (r *record) values() (out []string) {
	for _, d := range r.deliveries() {
		out = append(out, string(d.Value))
	}
	return out
}

// numbered makes n messages of one key; the values are the numbers from 0.
func numbered(key string, n int) []transport.Message {
	ms := make([]transport.Message, n)
	for i := range ms {
		f := transport.WireFields{
			ID: messaging.NewMessageID(), Type: "order.created", SchemaVersion: 1, Producer: "orders", ProducedAt: time.Now(),
			ContentType: "application/json", OrderingKey: key,
		}
		ms[i] = transport.Message{ID: f.ID, Value: fmt.Append(nil, i), Header: transport.EncodeHeaders(&f)}
		ms[i].Key, ms[i].NullKey = transport.RecordKey(key, "")
	}
	return ms
}

type bench struct {
	*Broker
	t testing.TB
	a transport.Adapter
	p transport.Publisher
}

func newBench(t testing.TB, able messaging.Capabilities, o ...Option) *bench {
	t.Helper()
	b := &bench{Broker: NewBroker(able, o...), t: t}
	b.a = b.Adapter()
	p, err := b.a.Publisher(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	b.p = p
	t.Cleanup(func() {
		if err := b.a.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return b
}

// publish gives the results that were there when Publish returned.
func (b *bench) publish(to transport.Endpoint, ms ...transport.Message) []messaging.PublishResult {
	rs := make([]messaging.PublishResult, len(ms))
	b.p.Publish(b.t.Context(), to, ms, func(i int, r messaging.PublishResult) { rs[i] = r })
	return rs
}

func (b *bench) subscribe(to transport.Endpoint, s transport.Subscription) (*record, transport.Consumer) {
	b.t.Helper()
	r := &record{}
	s.Endpoint = to
	if s.Consumer == "" {
		s.Consumer = "mailer"
	}
	c, err := b.a.Subscribe(b.t.Context(), s, r)
	if err != nil {
		b.t.Fatal(err)
	}
	return r, c
}

// until waits for a condition that the sink's or the broker's state decides.
func (b *bench) until(what string, condition func() bool) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.t.Context(), 20*time.Second)
	defer cancel()
	if err := b.Await(ctx, condition); err != nil {
		b.t.Fatalf("never: %s", what)
	}
}

func (b *bench) settle(c transport.Consumer, d transport.Delivery, v transport.Verb, delay time.Duration) messaging.SettlementResult {
	b.t.Helper()
	got := make(chan messaging.SettlementResult, 1)
	c.Settle(d, transport.Settlement{Verb: v, Delay: delay}, func(r messaging.SettlementResult) { got <- r })
	select {
	case r := <-got:
		return r
	case <-time.After(20 * time.Second):
		b.t.Fatal("a settlement was not answered")
		return messaging.SettlementResult{}
	}
}

func TestQueueRedeliversWhatIsNotSettled(t *testing.T) {
	t.Parallel()
	clock := NewClock()
	b := newBench(t, Everything, WithClock(clock))
	b.publish(queue, numbered("", 4)...)
	r, c := b.subscribe(queue, transport.Subscription{Prefetch: 3})
	b.until("three are in hand", func() bool { return len(r.values()) == 3 })
	ds := r.deliveries()
	for i, v := range []transport.Verb{transport.Ack, transport.Release, transport.Fail} {
		delay := time.Duration(0)
		if v == transport.Fail {
			delay = time.Minute
		}
		if got := b.settle(c, ds[i], v, delay); got.Status != messaging.Settled || got.Proof != messaging.ProofWritten {
			t.Errorf("%v: %+v", v, got)
		}
	}
	b.until("the released one and the last", func() bool { return len(r.values()) == 5 })
	if got := r.values(); !slices.Equal(got, []string{"0", "1", "2", "1", "3"}) && !slices.Equal(got, []string{"0", "1", "2", "3", "1"}) {
		t.Errorf("delivered %v", got)
	}
	clock.Advance(time.Minute)
	b.until("the failed one", func() bool { return len(r.values()) == 6 })
	last := r.deliveries()[5]
	if string(last.Value) != "2" || last.Failed != 1 || !last.Redelivered {
		t.Errorf("%s, failed %d, redelivered %v", last.Value, last.Failed, last.Redelivered)
	}
	if err := c.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := b.settle(c, last, transport.Ack, 0); got.Status != messaging.SettlementUnknown {
		t.Errorf("settled after the end: %+v", got)
	}
	if got := len(b.Left("mails", "")); got != 3 {
		t.Errorf("%d left, want 3", got)
	}
	if got := len(b.Stored("mails")); got != 4 {
		t.Errorf("%d stored, want 4", got)
	}
}

func TestTopicIsSharedOutInEpochs(t *testing.T) {
	t.Parallel()
	b := newBench(t, Everything, WithPartitions(2))
	one, first := b.subscribe(topic, transport.Subscription{})
	b.until("both partitions are with the first", func() bool { return len(b.Units("orders")) == 2 })
	before := b.Units("orders")
	two, second := b.subscribe(topic, transport.Subscription{})
	other, _ := b.subscribe(topic, transport.Subscription{Consumer: "another"})
	b.until("the second has one", func() bool { return len(two.snapshot()) == 1 })
	if got := one.snapshot(); len(got) != 3 || got[2] != "revoked orders/1" {
		t.Errorf("the first heard %v", got)
	}
	for i := range 8 {
		b.publish(topic, numbered(fmt.Sprint("key", i), 1)...)
	}
	b.until("all are delivered to both groups", func() bool {
		return len(one.values())+len(two.values()) == 8 && len(other.values()) == 8
	})
	for _, d := range two.deliveries() {
		if d.Unit.Name != "orders/1" || d.Unit.Epoch <= before[1].Epoch {
			t.Errorf("the second got %v, the epoch before was %d", d.Unit, before[1].Epoch)
		}
	}
	if got := b.settle(first, two.deliveries()[0], transport.Ack, 0); got.Status != messaging.SettlementUnknown {
		t.Errorf("settled for another: %+v", got)
	}
	if err := second.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.until("the first has all again", func() bool { return len(one.values()) == 8 })
}

func (r *record) snapshot() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.calls)
}

func TestPauseEndsWithItsEpoch(t *testing.T) {
	t.Parallel()
	b := newBench(t, Everything, WithPartitions(1))
	r, c := b.subscribe(topic, transport.Subscription{Strict: true})
	b.until("it is assigned", func() bool { return len(r.snapshot()) == 1 })
	old := r.units[0]
	c.Pause(old)
	b.publish(topic, numbered("k", 2)...)
	marker, _ := b.subscribe(topic, transport.Subscription{Consumer: "marker"})
	b.until("another group is through", func() bool { return len(marker.values()) == 2 })
	if got := r.values(); len(got) != 0 {
		t.Fatalf("delivered while paused: %v", got)
	}
	b.Inject(Fault{Kind: Lose, Destination: "orders"})
	b.until("it goes on in a new epoch, one at a time", func() bool { return len(r.values()) == 1 })
	if got := r.deliveries()[0].Unit.Epoch; got <= old.Epoch {
		t.Errorf("epoch %d after %d", got, old.Epoch)
	}
	if got := r.snapshot(); !slices.Equal(got, []string{"assigned orders/0", "lost orders/0", "assigned orders/0"}) {
		t.Errorf("heard %v", got)
	}
}

func TestFaultsOfPublishing(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		fault  Fault
		want   string // of the first message
		stored int
	}{
		"none":      {Fault{}, "CONFIRMED ", 2},
		"return":    {Fault{Kind: Return, Count: 1}, "REJECTED UNROUTABLE", 1},
		"nack":      {Fault{Kind: Nack, Count: 1}, "REJECTED NACKED", 1},
		"cut":       {Fault{Kind: Cut, Count: 1}, "AMBIGUOUS CONNECTION_LOST", 1},
		"down":      {Fault{Kind: Down, Count: 1}, "REJECTED BROKER_UNREACHABLE", 1},
		"reorder":   {Fault{Kind: Reorder, Count: 1}, "CONFIRMED ", 2},
		"duplicate": {Fault{Kind: Duplicate, Count: 1}, "CONFIRMED ", 3},
		"after":     {Fault{Kind: Nack, After: 1}, "CONFIRMED ", 1},
		"elsewhere": {Fault{Kind: Nack, Destination: "another"}, "CONFIRMED ", 2},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, Everything)
			b.Inject(tt.fault)
			ms := numbered("", 2)
			rs := b.publish(queue, ms...)
			if got := verdict(rs[0]); got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
			stored := b.Stored("mails")
			if len(stored) != tt.stored {
				t.Fatalf("%d stored, want %d", len(stored), tt.stored)
			}
			if tt.fault.Kind == Reorder && stored[0].ID != ms[1].ID {
				t.Error("the order is as it was")
			}
		})
	}
}

func verdict(r messaging.PublishResult) string {
	if r.Failure == nil {
		return r.Completion.String() + " "
	}
	return r.Completion.String() + " " + r.Failure.Code
}

func TestAnswersThatDoNotCome(t *testing.T) {
	t.Parallel()
	clock := NewClock()
	b := newBench(t, Everything, WithClock(clock))
	collect := func(ctx context.Context) <-chan messaging.PublishResult {
		got := make(chan messaging.PublishResult, 1)
		b.p.Publish(ctx, queue, numbered("", 1), func(_ int, r messaging.PublishResult) { got <- r })
		return got
	}
	undo := b.Inject(Fault{Kind: DropAck})
	ctx, cancel := context.WithCancel(t.Context())
	dropped := collect(ctx)
	cancel()
	if r := <-dropped; verdict(r) != "AMBIGUOUS CONFIRM_TIMEOUT" {
		t.Errorf("dropped: %s", verdict(r))
	}
	undo()
	undo = b.Inject(Fault{Kind: LateAck, Delay: time.Minute})
	late, soon := collect(t.Context()), collect(t.Context())
	clock.Advance(time.Minute)
	if r := <-late; r.Completion != messaging.Confirmed {
		t.Errorf("late: %s", verdict(r))
	}
	<-soon
	undone := collect(t.Context())
	undo()
	if r := <-undone; r.Completion != messaging.Confirmed {
		t.Errorf("undone: %s", verdict(r))
	}
	undo = b.Inject(Fault{Kind: Block})
	ctx, cancel = context.WithCancel(t.Context())
	blocked, waits := collect(ctx), collect(t.Context())
	cancel()
	if r := <-blocked; verdict(r) != "REJECTED BACKPRESSURE" || r.Evidence.Transmission != messaging.NotTransmitted {
		t.Errorf("blocked: %s", verdict(r))
	}
	if n := b.Unanswered(); n != 1 {
		t.Errorf("%d unanswered, want 1", n)
	}
	undo()
	if r := <-waits; r.Completion != messaging.Confirmed {
		t.Errorf("blocked for a while: %s", verdict(r))
	}
	b.Inject(Fault{Kind: DropAck})
	open := collect(t.Context())
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if err := b.p.Close(over); err != nil {
		t.Fatal(err)
	}
	if r := <-open; r.Completion != messaging.Ambiguous {
		t.Errorf("closed: %s", verdict(r))
	}
}

func TestKeyPrefix(t *testing.T) {
	t.Parallel()
	b := newBench(t, Everything)
	b.Inject(Fault{Kind: Nack, After: 1, Count: 1})
	ms := slices.Concat(numbered("a", 3), numbered("b", 1))
	rs := b.publish(topic, ms...)
	want := []string{"CONFIRMED ", "REJECTED NACKED", "REJECTED PREDECESSOR_NOT_STORED", "CONFIRMED "}
	for i, r := range rs {
		if verdict(r) != want[i] {
			t.Errorf("message %d: %s, want %s", i, verdict(r), want[i])
		}
	}
}

func TestSettlementFaults(t *testing.T) {
	t.Parallel()
	b := newBench(t, Everything)
	b.publish(queue, numbered("", 2)...)
	r, c := b.subscribe(queue, transport.Subscription{})
	b.until("both are in hand", func() bool { return len(r.values()) == 2 })
	b.Inject(Fault{Kind: LoseSettlement, Count: 1})
	if got := b.settle(c, r.deliveries()[0], transport.Ack, 0); got.Status != messaging.SettlementUnknown || len(b.Left("mails", "")) != 1 {
		t.Errorf("the answer was lost: %+v, %d left", got, len(b.Left("mails", "")))
	}
	b.Inject(Fault{Kind: DropSettlement, Count: 1})
	if got := b.settle(c, r.deliveries()[1], transport.Ack, 0); got.Status != messaging.SettlementUnknown || len(b.Left("mails", "")) != 1 {
		t.Errorf("the settlement was lost: %+v, %d left", got, len(b.Left("mails", "")))
	}
	if got := b.settle(c, r.deliveries()[0], transport.Ack, 0); got.Status != messaging.SettlementRejected {
		t.Errorf("settled twice: %+v", got)
	}
	b.Restart()
	b.until("what was not settled comes again", func() bool { return len(r.values()) == 3 })
	if d := r.deliveries()[2]; string(d.Value) != "1" || d.Failed != 1 {
		t.Errorf("%s, failed %d", d.Value, d.Failed)
	}
}

func TestWhatIsNotDeclaredIsRefused(t *testing.T) {
	t.Parallel()
	b := newBench(t, messaging.Capabilities{OrderedStream: true})
	late := numbered("", 1)
	late[0].Delay = time.Second
	if got := verdict(b.publish(topic, late...)[0]); got != "REJECTED CAPABILITY_UNAVAILABLE" {
		t.Errorf("delayed: %s", got)
	}
	if got := verdict(b.publish(topic, numbered("", 1)...)[0]); got != "AMBIGUOUS UNKNOWN_OUTCOME" {
		t.Errorf("without acknowledgement: %s", got)
	}
	r, c := b.subscribe(topic, transport.Subscription{})
	b.until("it is delivered", func() bool { return len(r.values()) == 1 })
	if got := b.settle(c, r.deliveries()[0], transport.Fail, 0); got.Status != messaging.SettlementRejected {
		t.Errorf("fail: %+v", got)
	}
	if got := b.settle(c, r.deliveries()[0], transport.Ack, 0); got.Proof != messaging.ProofBrokerAcked {
		t.Errorf("ack: %+v", got)
	}
}

func TestBrokerMovesWhatFailedTooOften(t *testing.T) {
	t.Parallel()
	b := newBench(t, Everything, WithDeliveryLimit("mails", 1, "dead"))
	b.publish(queue, numbered("", 1)...)
	r, c := b.subscribe(queue, transport.Subscription{})
	for i := range 2 {
		b.until("it is delivered", func() bool { return len(r.values()) == i+1 })
		b.settle(c, r.deliveries()[i], transport.Fail, 0)
	}
	if len(b.Left("mails", "")) != 0 || len(b.Stored("dead")) != 1 {
		t.Errorf("left %d, dead %d", len(b.Left("mails", "")), len(b.Stored("dead")))
	}
}
