package platform_test

import (
	"context"
	"errors"
	"io"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/backend-skeleton/relay/internal/brokertest"
	"github.com/backend-skeleton/relay/messaging"
	"github.com/backend-skeleton/relay/messaging/messagingtest"
	"github.com/backend-skeleton/relay/messaging/platform"
	"github.com/backend-skeleton/relay/messaging/transport"
)

// consuming is the file of the tests of consumers.
const consuming = `
messaging:
  environment: local
  brokers:
    main: {kind: memory, seeds: ["memory:1"]}
  destinations:
    order-events: {broker: main, kind: EVENT_STREAM, physical: {topic: orders}, producer: {timeout: 2s}, guarantees: {ordering: KEY}}
    order-dlq: {broker: main, kind: WORK_QUEUE, physical: {queue: dlq}, producer: {timeout: 2s}}
    price-dlq: {broker: main, kind: WORK_QUEUE, physical: {queue: price-dlq}, producer: {timeout: 2s}}
    parked: {broker: main, kind: WORK_QUEUE, physical: {queue: parked}, producer: {timeout: 2s}}
    prices: {broker: main, kind: COMMAND, physical: {queue: prices}, producer: {timeout: 2s}, grants: [REQUEST_REPLY]}
  consumers:
    order-projection:
      destination: order-events
      concurrency: 4
      max-in-flight-per-partition: 4
      retry: {mode: PAUSE_PARTITION, max-attempts: 3, initial-delay: 1ms, max-delay: 2ms}
      dlq: {destination: order-dlq}
      parking: {schema: parked}
    price-desk:
      destination: prices
      dlq: {destination: price-dlq}
      grants: [REQUEST_REPLY]
`

type placed struct {
	N int `json:"n"`
}

type price struct {
	Cents int `json:"cents"`
}

var (
	orderPlaced = messaging.Destination[placed]{Name: "order-events", Type: "order.placed", Version: 1}
	priceAsked  = messaging.Destination[placed]{Name: "prices", Type: "price.asked", Version: 1}
	priceTold   = messaging.Destination[price]{Name: "price-replies", Type: "price.told", Version: 1}
)

// service opens a platform over a broker in memory.
func service(t testing.TB, text string, change ...func(*platform.Options)) (*platform.Platform, *messagingtest.Broker) {
	t.Helper()
	able := messagingtest.Everything
	able.DeduplicatedPublish = false
	b := messagingtest.NewBroker(able)
	o := platform.Options{
		File: file(t, text), Env: []string{}, Producer: "orders",
		Adapters: map[string]platform.NewAdapter{"memory": func(context.Context, map[string]any) (transport.Adapter, error) { return b.Adapter(), nil }},
	}
	for _, c := range change {
		c(&o)
	}
	p, err := platform.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close(context.Background()) })
	return p, b
}

// run runs a platform; the returned function stops it and gives what Run gave.
func run(t testing.TB, p *platform.Platform) (stop func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- p.Run(ctx) }()
	stopped := false
	stop = func() error {
		stopped = true
		cancel()
		return <-done
	}
	t.Cleanup(func() {
		if !stopped {
			if err := stop(); err != nil {
				t.Error(err)
			}
		}
	})
	return stop
}

func page(p *platform.Platform, path string) string {
	w := httptest.NewRecorder()
	p.Handler().ServeHTTP(w, httptest.NewRequest("GET", path, nil))
	body, _ := io.ReadAll(w.Result().Body)
	return string(body)
}

func TestAServiceConsumesWhatItPublishes(t *testing.T) {
	t.Parallel()
	events := map[string]*atomic.Int32{"SUCCESS": {}, "DEAD_LETTERED": {}, "PARKED": {}}
	p, b := service(t, consuming, func(o *platform.Options) { o.Observe = append(o.Observe, observer(events)) })
	publisher, err := platform.NewPublisher(p, orderPlaced)
	if err != nil {
		t.Fatal(err)
	}
	next := map[string]int{}
	keys := make(chan struct{}, 1)
	_, err = platform.Consume(p, "order-projection", platform.On(orderPlaced, messaging.HandlerFunc[placed](func(_ context.Context, d messaging.Delivery[placed]) messaging.Result {
		keys <- struct{}{}
		defer func() { <-keys }()
		if d.Payload.N != next[d.OrderingKey] {
			t.Errorf("key %s: %d where %d is next", d.OrderingKey, d.Payload.N, next[d.OrderingKey])
		}
		if d.Payload.N == 3 && d.Meta.Attempt == 1 {
			return messaging.Retry(*messaging.NewFailure(messaging.CategoryProcessingTransient, "BUSY", "busy"))
		}
		next[d.OrderingKey]++
		if d.Payload.N == 5 {
			return messaging.DeadLetter(*messaging.NewFailure(messaging.CategoryPermanentBusiness, "NO_STOCK", "no stock"))
		}
		return messaging.Success()
	})))
	if err != nil {
		t.Fatal(err)
	}
	run(t, p)
	for n := range 10 {
		for _, key := range []string{"a", "b"} {
			e := orderPlaced.New(placed{N: n})
			e.OrderingKey = key
			if _, err := publisher.Publish(t.Context(), e, nil); err != nil {
				t.Fatal(err)
			}
		}
	}
	b.Put("orders", transport.Message{Value: []byte("foreign"), Header: []transport.Header{{Name: "x", Value: []byte("y")}}})
	brokertest.Eventually(t, 20*time.Second, "all are settled", func() bool {
		return len(b.Left("orders", "order-projection")) == 0 && events["SUCCESS"].Load() == 18 && events["DEAD_LETTERED"].Load() == 2 && events["PARKED"].Load() == 1
	})
	if dlq, parked := len(b.Stored("dlq")), len(b.Stored("parked")); dlq != 2 || parked != 1 {
		t.Errorf("%d dead letters, want 2; %d parked, want 1", dlq, parked)
	}
	metrics := page(p, "/metrics")
	for _, line := range []string{
		`messaging_consume_messages_total{consumer="order-projection",outcome="SUCCESS",type="order.placed"} 18`,
		`messaging_handovers_total{consumer="order-projection",reason="PERMANENT_BUSINESS",status="CONFIRMED"} 2`,
		`messaging_handlers_running{consumer="order-projection"} 0`,
	} {
		if !strings.Contains(metrics, line) {
			t.Errorf("the metrics do not have %s", line)
		}
	}
	if ready := page(p, "/readyz"); !strings.Contains(ready, `"name": "order-projection"`) {
		t.Errorf("readiness does not name the consumer: %s", ready)
	}
}

type observer map[string]*atomic.Int32

func (o observer) ObserveConsume(e platform.ConsumeEvent) {
	if n := o[e.Outcome]; n != nil {
		n.Add(1)
	}
}

func TestARequestIsAnsweredByItsHandler(t *testing.T) {
	t.Parallel()
	p, _ := service(t, consuming)
	requester, err := platform.NewRequester(p, priceAsked, priceTold)
	if err != nil {
		t.Fatal(err)
	}
	_, err = platform.Consume(p, "price-desk", platform.OnRequest(priceAsked, priceTold, func(_ context.Context, d messaging.Delivery[placed]) (price, error) {
		if d.Payload.N < 0 {
			return price{}, errors.New("no such thing")
		}
		return price{Cents: 100 * d.Payload.N}, nil
	}))
	if err != nil {
		t.Fatal(err)
	}
	run(t, p)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for n := range 5 {
		request := priceAsked.New(placed{N: n})
		answer, err := requester.Request(ctx, request)
		if err != nil {
			t.Fatal(err)
		}
		if answer.Payload.Cents != 100*n || answer.Causation.MessageID != request.ID {
			t.Errorf("request %d: %d cents, the cause is its own: %t", n, answer.Payload.Cents, answer.Causation.MessageID == request.ID)
		}
	}
	short, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if _, err := requester.Request(short, priceAsked.New(placed{N: -1})); !errors.Is(err, messaging.ErrReplyTimeout) {
		t.Errorf("a request that fails ends with %v", err)
	}
}

// Handlers' publishes are admitted while the platform drains, and what they gave is settled; others' get ErrClosed.
func TestTheDrainLetsHandlersFinish(t *testing.T) {
	t.Parallel()
	p, b := service(t, consuming)
	publisher, err := platform.NewPublisher(p, orderPlaced)
	if err != nil {
		t.Fatal(err)
	}
	began, goOn := make(chan struct{}), make(chan struct{})
	var inside error
	_, err = platform.Consume(p, "order-projection", platform.On(orderPlaced, messaging.HandlerFunc[placed](func(ctx context.Context, d messaging.Delivery[placed]) messaging.Result {
		if d.Payload.N == 0 {
			close(began)
			<-goOn
			e := orderPlaced.New(placed{N: 1})
			e.OrderingKey = "a"
			_, inside = publisher.Publish(ctx, e, nil)
		}
		return messaging.Success()
	})))
	if err != nil {
		t.Fatal(err)
	}
	stop := run(t, p)
	e := orderPlaced.New(placed{})
	e.OrderingKey = "a"
	if _, err := publisher.Publish(t.Context(), e, nil); err != nil {
		t.Fatal(err)
	}
	<-began
	stopped := make(chan error, 1)
	go func() { stopped <- stop() }()
	brokertest.Eventually(t, 20*time.Second, "publishes from outside to be refused", func() bool {
		_, err := publisher.Publish(t.Context(), orderPlacedFor("b"), nil)
		return errors.Is(err, messaging.ErrClosed)
	})
	close(goOn)
	if err := <-stopped; err != nil {
		t.Error(err)
	}
	if inside != nil {
		t.Errorf("the handler's publish: %v", inside)
	}
	for _, m := range b.Left("orders", "order-projection") {
		if m.ID == e.ID {
			t.Error("what the handler did is not settled")
		}
	}
}

func orderPlacedFor(key string) messaging.Envelope[placed] {
	e := orderPlaced.New(placed{N: 99})
	e.OrderingKey = key
	return e
}

// What a consumer may not do is refused before it begins, with the grant or the place that is missing.
func TestWhatConsumersMayNot(t *testing.T) {
	t.Parallel()
	ok := messaging.HandlerFunc[placed](func(context.Context, messaging.Delivery[placed]) messaging.Result { return messaging.Success() })
	byHand := messaging.ManualHandlerFunc[placed](func(context.Context, messaging.Delivery[placed], messaging.SettlementController) {})
	many := messaging.BatchHandlerFunc[placed](func(context.Context, []messaging.Delivery[placed]) []messaging.ItemResult { return nil })
	rawOrder := messaging.Destination[messaging.Raw]{Name: "order-events", Type: "order.raw", Version: 1}
	elsewhere := messaging.Destination[placed]{Name: "prices", Type: "order.placed", Version: 1}
	for what, row := range map[string]struct {
		change   func(string) string
		consumer messaging.ConsumerName
		routes   []platform.Route
		says     string
	}{
		"no such consumer":  {nil, "nobody", []platform.Route{platform.On(orderPlaced, ok)}, "messaging.consumers does not have nobody"},
		"no route":          {nil, "order-projection", nil, "no handler"},
		"an empty route":    {nil, "order-projection", []platform.Route{{}}, "was not made by On"},
		"twice":             {nil, "order-projection", []platform.Route{platform.On(orderPlaced, ok), platform.On(orderPlaced, ok)}, "two handlers for order.placed version 1"},
		"other destination": {nil, "order-projection", []platform.Route{platform.On(elsewhere, ok)}, "belongs to prices"},
		"manual":            {nil, "order-projection", []platform.Route{platform.OnManual(orderPlaced, byHand)}, "MANUAL_SETTLEMENT"},
		"batch":             {nil, "order-projection", []platform.Route{platform.OnBatch(orderPlaced, many)}, "BATCH_CONSUME"},
		"raw": {nil, "order-projection", []platform.Route{platform.On(rawOrder, messaging.HandlerFunc[messaging.Raw](func(context.Context, messaging.Delivery[messaging.Raw]) messaging.Result {
			return messaging.Success()
		}))}, "RAW_BYTES"},
		"no inbox": {func(s string) string {
			return strings.Replace(s, "      concurrency: 4\n", "      concurrency: 4\n      external-side-effect: INBOX_TRANSACTIONAL\n", 1)
		}, "order-projection", []platform.Route{platform.On(orderPlaced, ok)}, "client.InboxHandler"},
		"another's inbox": {nil, "order-projection", []platform.Route{platform.On[placed](orderPlaced, bound{ok})}, "the inbox of somebody-else"},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			text := consuming
			if row.change != nil {
				text = row.change(text)
			}
			p, _ := service(t, text)
			_, err := platform.Consume(p, row.consumer, row.routes...)
			if err == nil || !errors.Is(err, messaging.ErrConfiguration) || !strings.Contains(err.Error(), row.says) {
				t.Errorf("the error is %v, it should say %s", err, row.says)
			}
		})
	}
}

type bound struct{ messaging.Handler[placed] }

func (bound) InboxConsumer() messaging.ConsumerName { return "somebody-else" }

// What the broker cannot do is refused with the path of the setting that asks for it.
func TestAConsumerIsHeldAgainstItsBroker(t *testing.T) {
	t.Parallel()
	p, b := service(t, consuming)
	able := messagingtest.Everything
	able.KeyedOrdering = false
	b.Change(able)
	_, err := platform.Consume(p, "order-projection", platform.On(orderPlaced, messaging.HandlerFunc[placed](func(context.Context, messaging.Delivery[placed]) messaging.Result { return messaging.Success() })))
	var refused *platform.ConfigError
	if !errors.As(err, &refused) || refused.Findings[0].Path != "messaging.consumers.order-projection.destination" {
		t.Errorf("the error is %v", err)
	}
}
