package consume_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/backend-skeleton/relay/internal/brokertest"
	"github.com/backend-skeleton/relay/internal/consume"
	"github.com/backend-skeleton/relay/messaging"
	codec "github.com/backend-skeleton/relay/messaging/codec/json"
	"github.com/backend-skeleton/relay/messaging/messagingtest"
	"github.com/backend-skeleton/relay/messaging/transport"
)

type order struct {
	N int `json:"n"`
}

var created = messaging.Destination[order]{Name: "order-events", Type: "order.created", Version: 1}

var (
	deadLetters = transport.Endpoint{Name: "order-dlq", Physical: map[string]string{"queue": "dlq"}}
	schemaPlace = transport.Endpoint{Name: "schema-parking", Physical: map[string]string{"queue": "parked-schema"}}
	security    = transport.Endpoint{Name: "security-parking", Physical: map[string]string{"queue": "parked-security"}}
	review      = transport.Endpoint{Name: "review-parking", Physical: map[string]string{"queue": "parked-review"}}
)

const name messaging.ConsumerName = "order-projection"

// world is a consumer of a place of a broker in memory.
type world struct {
	*messagingtest.Broker
	t     testing.TB
	c     consume.Config
	k     *consume.Consumer
	place string
	p     transport.Publisher

	mu    sync.Mutex // guards what follows
	ended map[string]int
	calls []call
	hands []messaging.Completion
}

type call struct {
	n, attempt int
	key        string
	id         messaging.MessageID
	at         time.Time
}

// newWorld makes a world whose source is a topic with one partition, or a queue.
func newWorld(t testing.TB, topic bool, change func(*consume.Config), o ...messagingtest.Option) *world {
	t.Helper()
	w := &world{
		Broker: messagingtest.NewBroker(able(), append([]messagingtest.Option{messagingtest.WithPartitions(1)}, o...)...),
		t:      t, place: "orders", ended: map[string]int{},
	}
	source := transport.Endpoint{Name: created.Name, Physical: map[string]string{"queue": "orders"}}
	if topic {
		source.Physical = map[string]string{"topic": "orders"}
	}
	a := w.Adapter()
	all := []transport.Endpoint{source, deadLetters, schemaPlace, security, review}
	for n := range 4 {
		all = append(all, stage(n+1))
	}
	p, err := a.Publisher(t.Context(), all)
	if err != nil {
		t.Fatal(err)
	}
	standard, err := codec.New(codec.Config{})
	if err != nil {
		t.Fatal(err)
	}
	w.p = p
	w.c = consume.Config{
		Name: name, Endpoint: source, Adapter: a, Caps: messagingtest.Everything, Publisher: p, Delivery: messaging.AtLeastOnce,
		Ordering: messaging.OrderingNone, Concurrency: 4, HandlerTimeout: 10 * time.Second,
		Policy:      messaging.RetryPolicy{Mode: messaging.ModePausePartition, MaxAttempts: 3, InitialDelay: time.Millisecond, MaxDelay: 5 * time.Millisecond, Multiplier: 2},
		DeadLetters: &deadLetters,
		Parking: map[messaging.Parking]transport.Endpoint{
			messaging.ParkingSchema: schemaPlace, messaging.ParkingSecurity: security, messaging.ParkingManualReview: review,
		},
		Codecs: []messaging.Codec{standard},
		Types:  map[messaging.MessageType]messaging.TypeRule{"order.created": {Versions: []messaging.SchemaVersion{1}}, "order.gone": {}},
		Hooks: consume.Hooks{
			Ended: func(_ messaging.MessageType, outcome string, _ bool) {
				w.mu.Lock()
				defer w.mu.Unlock()
				w.ended[outcome]++
			},
			HandedOver: func(_ messaging.DestinationName, _ string, c messaging.Completion, _ messaging.Failure) {
				w.mu.Lock()
				defer w.mu.Unlock()
				w.hands = append(w.hands, c)
			},
			Misstep: func(from, next consume.State) {
				t.Errorf("a delivery went from %v to %v, which is no step", from, next)
			},
		},
	}
	if change != nil {
		change(&w.c)
	}
	return w
}

// able is everything but to drop what was published before: a redriven message has its old id.
func able() messaging.Capabilities {
	able := messagingtest.Everything
	able.DeduplicatedPublish = false
	return able
}

func stage(n int) transport.Endpoint {
	return transport.Endpoint{Name: messaging.DestinationName("retry-" + strconv.Itoa(n)), Physical: map[string]string{"topic": "orders.retry." + strconv.Itoa(n)}}
}

// start runs the consumer until the end of the test.
func (w *world) start(routes ...consume.Route) {
	w.t.Helper()
	w.c.Routes = routes
	k, err := consume.New(w.c)
	if err != nil {
		w.t.Fatal(err)
	}
	if err := k.Start(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
	w.k = k
	w.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		_ = k.Stop(ctx) // a test that wants its error has stopped it
	})
}

// handle writes down each call and answers what answer says; nil is success.
func (w *world) handle(answer func(ctx context.Context, c call) messaging.Result) consume.Route {
	return consume.On(created, messaging.HandlerFunc[order](func(ctx context.Context, d messaging.Delivery[order]) messaging.Result {
		c := w.note(d)
		if answer == nil {
			return messaging.Success()
		}
		return answer(ctx, c)
	}))
}

func (w *world) note(d messaging.Delivery[order]) call {
	w.mu.Lock()
	defer w.mu.Unlock()
	c := call{n: d.Payload.N, attempt: d.Meta.Attempt, key: d.OrderingKey, id: d.ID, at: time.Now()}
	w.calls = append(w.calls, c)
	return c
}

func (w *world) made() []call {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.calls)
}

func (w *world) outcomes(outcome string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.ended[outcome]
}

// put stores n messages of a key, numbered from the given one.
func (w *world) put(key string, from, n int) (ids []messaging.MessageID) {
	w.t.Helper()
	for i := range n {
		ids = append(ids, w.putOne(key, from+i, nil))
	}
	return ids
}

func (w *world) putOne(key string, n int, change func(*transport.Message)) messaging.MessageID {
	w.t.Helper()
	f := transport.WireFields{
		ID: messaging.NewMessageID(), Type: created.Type, SchemaVersion: 1, Producer: "orders", ProducedAt: time.Now(),
		ContentType: "application/json", OrderingKey: key,
	}
	value, err := json.Marshal(order{N: n})
	if err != nil {
		w.t.Fatal(err)
	}
	m := transport.Message{ID: f.ID, Value: value, Header: transport.EncodeHeaders(&f)}
	m.Key, m.NullKey = transport.RecordKey(key, "")
	if change != nil {
		change(&m)
	}
	stored := make(chan messaging.PublishResult, 1)
	w.p.Publish(w.t.Context(), w.c.Endpoint, []transport.Message{m}, func(_ int, r messaging.PublishResult) { stored <- r })
	if r := <-stored; r.Completion != messaging.Confirmed {
		w.t.Fatalf("not stored: %v", r.Failure)
	}
	return f.ID
}

// eventually waits for a condition.
func (w *world) eventually(what string, condition func() bool) {
	w.t.Helper()
	brokertest.Eventually(w.t, 20*time.Second, what, condition)
}

// settled waits until nothing of the source is left.
func (w *world) settled() {
	w.t.Helper()
	w.eventually("everything is settled", func() bool { return len(w.Left(w.place, name)) == 0 })
}

func header(m transport.Message, name string) string {
	found := ""
	for _, h := range m.Header {
		if h.Name == name {
			if found != "" {
				return "TWICE"
			}
			found = string(h.Value)
		}
	}
	return found
}

func transient() messaging.Result {
	return messaging.Retry(*messaging.NewFailure(messaging.CategoryProcessingTransient, "BUSY", "busy"))
}

func permanent() messaging.Result {
	return messaging.DeadLetter(*messaging.NewFailure(messaging.CategoryPermanentBusiness, "NO_STOCK", "no stock"))
}

func stop(t testing.TB, k *consume.Consumer, within time.Duration) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	return k.Stop(ctx)
}

var errTest = errors.New("test")
