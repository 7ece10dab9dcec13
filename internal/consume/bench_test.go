package consume_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/backend-skeleton/relay/internal/consume"
	"github.com/backend-skeleton/relay/messaging"
	"github.com/backend-skeleton/relay/messaging/transport"
)

// belt is an adapter that delivers one message again and again, as fast as it is settled, and costs nothing itself.
type belt struct {
	message transport.Message
	sink    transport.Sink
	settled chan struct{}
}

func (b *belt) Capabilities(context.Context, transport.Endpoint) (messaging.Capabilities, error) {
	return messaging.Capabilities{}, nil
}

func (b *belt) Publisher(context.Context, []transport.Endpoint) (transport.Publisher, error) {
	return nil, nil
} //nolint:nilnil // nobody asks

func (b *belt) Inspect(context.Context, []transport.Endpoint) ([]transport.Drift, error) {
	return nil, nil
}

func (b *belt) Subscribe(_ context.Context, _ transport.Subscription, s transport.Sink) (transport.Consumer, error) {
	b.sink = s
	s.Assigned([]transport.Unit{{Name: "0"}})
	return b, nil
}

func (b *belt) Settle(_ transport.Delivery, _ transport.Settlement, done func(messaging.SettlementResult)) {
	done(messaging.SettlementResult{Status: messaging.Settled, Proof: messaging.ProofWritten})
	b.settled <- struct{}{}
}
func (b *belt) Pause(...transport.Unit)     {}
func (b *belt) Resume(...transport.Unit)    {}
func (b *belt) Stop(context.Context) error  { return nil }
func (b *belt) Close(context.Context) error { return nil }

// instant is a codec that costs nothing.
type instant struct{}

func (instant) ContentType() string { return "application/json" }
func (instant) Encode(context.Context, messaging.MessageType, messaging.SchemaVersion, any) ([]byte, *messaging.SchemaReference, error) {
	return nil, nil, nil
}

func (instant) Decode(context.Context, messaging.MessageType, messaging.SchemaVersion, *messaging.SchemaReference, []byte, any) error {
	return nil
}

func newBelt(tb testing.TB, workers int) (*belt, *consume.Consumer) {
	tb.Helper()
	f := transport.WireFields{
		ID: messaging.NewMessageID(), Type: created.Type, SchemaVersion: 1, Producer: "orders", ProducedAt: time.Now(), ContentType: "application/json",
	}
	b := &belt{message: transport.Message{ID: f.ID, Value: []byte(`{"n":1}`), Header: transport.EncodeHeaders(&f)}, settled: make(chan struct{}, 1<<16)}
	k, err := consume.New(consume.Config{
		Name: name, Endpoint: transport.Endpoint{Name: created.Name}, Adapter: b, Delivery: messaging.AtLeastOnce, Ordering: messaging.OrderingNone,
		Concurrency: workers, Prefetch: 4 * workers, Policy: messaging.RetryPolicy{Mode: messaging.ModeNone}, Codecs: []messaging.Codec{instant{}},
		Routes: []consume.Route{consume.On(created, messaging.HandlerFunc[order](func(context.Context, messaging.Delivery[order]) messaging.Result {
			return messaging.Success()
		}))},
	})
	if err != nil {
		tb.Fatal(err)
	}
	if err := k.Start(tb.Context()); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := stop(tb, k, 10*time.Second); err != nil {
			tb.Error(err)
		}
	})
	return b, k
}

// turn handles n messages, at most open of them at once.
func (b *belt) turn(n, open int) {
	for i := range n + open {
		if i >= open {
			<-b.settled
		}
		if i < n {
			b.sink.Deliver(transport.Delivery{Message: b.message, Unit: transport.Unit{Name: "0"}})
		}
	}
}

// BenchmarkRuntime is what a message costs between adapter and settlement, above the codec: x-channel is how many times as
// much as the floor.
func BenchmarkRuntime(b *testing.B) {
	for _, workers := range []int{1, 8, 64} {
		b.Run(fmt.Sprint(workers), func(b *testing.B) {
			belt, _ := newBelt(b, workers)
			belt.turn(100, workers)
			b.ReportAllocs()
			b.ResetTimer()
			belt.turn(b.N, 2*workers)
			b.StopTimer()
			took := b.Elapsed()
			began := time.Now()
			channels(b.N, workers)
			b.ReportMetric(float64(took)/float64(time.Since(began)), "x-channel")
		})
	}
}

// channels is the floor: as many goroutines take n messages from a channel and tell their end by another.
func channels(n, workers int) {
	in, out := make(chan int), make(chan int, 4*workers)
	for range workers {
		go func() {
			for i := range in {
				out <- i
			}
		}()
	}
	for i := range n + 2*workers {
		if i >= 2*workers {
			<-out
		}
		if i < n {
			in <- i
		}
	}
	close(in)
}

// Four of them are the handler's context with its timeout, the rest one each: delivery, texts of the headers, hash of the
// payload, settlement. Jobs, their goroutines' start and what a payload is read into serve again.
func TestAMessageAllocatesLittleAboveTheCodec(t *testing.T) {
	belt, _ := newBelt(t, 1)
	belt.turn(1000, 1)
	const n = 200
	if got := testing.AllocsPerRun(5, func() { belt.turn(n, 1) }) / n; got > 8.2 { // the runtime's own goroutines take some
		t.Errorf("%.1f allocations a message, the limit is 8", got)
	}
}
