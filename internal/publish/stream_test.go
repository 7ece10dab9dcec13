package publish_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/backend-skeleton/relay/internal/publish"
	"github.com/backend-skeleton/relay/messaging"
	"github.com/backend-skeleton/relay/messaging/transport"
)

// keyed yields one message per key, its number as the payload, and counts what was read.
func keyed(read *atomic.Int64, keys ...string) iter.Seq[messaging.Envelope[order]] {
	return func(yield func(messaging.Envelope[order]) bool) {
		for i, key := range keys {
			read.Add(1)
			e := event(key)
			e.Payload.ID = fmt.Sprint(i)
			if !yield(e) {
				return
			}
		}
	}
}

func payloads(ms []transport.Message) (out []string) {
	for _, m := range ms {
		out = append(out, string(m.Value))
	}
	return out
}

func TestPublishSeqKeepsTheOrderOfItsInput(t *testing.T) {
	t.Parallel()
	const n = 1000
	b := newBench(t, &edge{answer: func(m transport.Message) *messaging.PublishResult {
		if string(m.Value) == `{"id":"500"}` {
			return refused(messaging.Rejected, messaging.CategoryValidation, messaging.CodeRecordRefused)
		}
		r := confirmed()
		return &r
	}}, 0)
	var read atomic.Int64
	i := 0
	for r, err := range publisherOf(t, b).PublishSeq(t.Context(), keyed(&read, make([]string, n)...), nil) {
		if (err != nil) != (i == 500) || (r.Completion == messaging.Confirmed) != (i != 500) {
			t.Errorf("message %d: %+v, %v", i, r, err)
		}
		i++
	}
	if i != n {
		t.Errorf("%d results of %d", i, n)
	}
	for i, text := range payloads(b.edge.sent()) {
		if text != fmt.Sprintf(`{"id":"%d"}`, i) {
			t.Fatalf("handed over at %d: %s", i, text)
		}
	}
}

// The input is read as far as the window reaches, whatever the reader of the results does.
func TestPublishSeqHoldsItsInputBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		hold := &edge{answer: func(transport.Message) *messaging.PublishResult { return nil }}
		b := newBench(t, hold, 0)
		p := publisherOf(t, b)
		var read atomic.Int64
		results := 0
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			for _, err := range p.PublishSeq(t.Context(), keyed(&read, make([]string, 10_000)...), &messaging.PublishOptions{Timeout: time.Minute}) {
				if err != nil {
					t.Error(err)
				}
				if results++; results == 5 {
					break // waits for what is in flight
				}
			}
		}()
		synctest.Wait()
		most := read.Load()
		if most > 200 || most < 100 {
			t.Errorf("%d were read with no answer", most)
		}
		for i := range 5 {
			hold.release(i, confirmed())
		}
		synctest.Wait()
		select {
		case <-ended:
			t.Error("a break did not wait for what is in flight")
		default:
		}
		for i := 5; i < len(hold.open); i++ {
			hold.release(i, confirmed())
		}
		<-ended
		if b.Broker.InFlight() != 0 || read.Load() > most+5 {
			t.Errorf("%d in flight, %d read", b.Broker.InFlight(), read.Load())
		}
	})
}

// On a destination ordered by key a message waits for the one before it. What stands behind a failure is not sent; what is
// read after the reader has seen the failure is his choice.
func TestPublishSeqKeepsTheOrderOfKeys(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		hold := &edge{answer: func(m transport.Message) *messaging.PublishResult {
			if string(m.Value) == `{"id":"0"}` {
				return nil
			}
			r := confirmed()
			return &r
		}}
		b := newBench(t, hold, 0)
		b.Ordered = true
		p := publisherOf(t, b)
		var read atomic.Int64
		var errs []error
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			for _, err := range p.PublishSeq(t.Context(), keyed(&read, "a", "b", "a", "a", "b"), nil) {
				errs = append(errs, err)
			}
		}()
		synctest.Wait()
		if got := payloads(hold.sent()); !slices.Equal(got, []string{`{"id":"0"}`, `{"id":"1"}`}) {
			t.Errorf("with the first of a open, %v were sent", got)
		}
		hold.release(0, *refused(messaging.Ambiguous, messaging.CategoryAmbiguous, messaging.CodeConnectionLost))
		<-ended
		if len(errs) != 5 || !errors.Is(errs[0], messaging.ErrPublishAmbiguous) || errs[1] != nil || errs[4] != nil ||
			codeOf(errs[2]) != messaging.CodePredecessorNotStored || errs[3] != nil {
			t.Errorf("%v", errs)
		}
		if got := payloads(hold.sent()); !slices.Equal(got, []string{`{"id":"0"}`, `{"id":"1"}`, `{"id":"3"}`, `{"id":"4"}`}) {
			t.Errorf("sent %v", got)
		}
		for _, e := range b.events {
			if e.Result.Elapsed < 0 || e.Result.Elapsed > time.Minute {
				t.Errorf("a verdict of %v took %v", e.Result.Completion, e.Result.Elapsed)
			}
		}
	})
}

// mine is a payload whose own code panics when it is encoded.
type mine struct{}

func (mine) MarshalJSON() ([]byte, error) { panic("mine") }

// A panic of the payload's own code is the caller's to see: in his goroutine, whatever the form of the call, and nothing
// stays open behind it.
func TestAPanicOfThePayloadIsTheCallers(t *testing.T) {
	t.Parallel()
	to := messaging.Destination[mine]{Name: created.Name, Type: created.Type, Version: 1}
	for name, call := range map[string]func(messaging.Publisher[mine], messaging.BatchPublisher[mine]){
		"blocking": func(p messaging.Publisher[mine], _ messaging.BatchPublisher[mine]) {
			_, _ = p.Publish(context.Background(), to.New(mine{}), nil)
		},
		"asynchronous": func(p messaging.Publisher[mine], _ messaging.BatchPublisher[mine]) {
			p.PublishAsync(context.Background(), to.New(mine{}), nil, func(messaging.PublishResult, error) {})
		},
		"streaming": func(p messaging.Publisher[mine], _ messaging.BatchPublisher[mine]) {
			for r, err := range p.PublishSeq(context.Background(), slices.Values([]messaging.Envelope[mine]{to.New(mine{})}), nil) {
				t.Errorf("a result came: %+v, %v", r, err)
			}
		},
		"batch": func(_ messaging.Publisher[mine], b messaging.BatchPublisher[mine]) {
			_, _ = b.PublishBatch(context.Background(), []messaging.Envelope[mine]{to.New(mine{})}, nil)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t, &edge{}, 0)
				b.Granted = all
				p, err := publish.New(b.Destination, to)
				if err != nil {
					t.Fatal(err)
				}
				batch, err := publish.NewBatch(b.Destination, to)
				if err != nil {
					t.Fatal(err)
				}
				func() {
					defer func() {
						if recover() != "mine" {
							t.Error("the caller did not see the panic")
						}
					}()
					call(p, batch)
				}()
				if err := b.Broker.Close(context.Background()); err != nil || b.Broker.InFlight() != 0 { // it waits for open calls
					t.Errorf("%v, %d in flight", err, b.Broker.InFlight())
				}
			})
		})
	}
}
