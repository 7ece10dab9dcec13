package consume_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/backend-skeleton/relay/internal/consume"
	"github.com/backend-skeleton/relay/messaging"
	"github.com/backend-skeleton/relay/messaging/transport"
)

// B26: the position moves behind a message when its handler has succeeded, and not before. A consumer that ends in the
// middle, however often, loses nothing: what it had begun comes again.
func TestB26_APositionMovesBehindTheHandler(t *testing.T) {
	t.Parallel()
	w := newWorld(t, true, func(c *consume.Config) { c.Concurrency, c.PerUnit = 4, 4 })
	const all = 200
	w.put("", 0, all)
	var mu sync.Mutex // guards effects
	effects := map[int]bool{}
	for round := range 5 {
		done := 0
		hang := make(chan struct{})
		w.start(w.handle(func(ctx context.Context, c call) messaging.Result {
			mu.Lock()
			if done++; done > 20 && round < 4 { // the process ends in the midst of these
				mu.Unlock()
				select {
				case <-hang:
				case <-ctx.Done():
				}
				return messaging.Success()
			}
			effects[c.n] = true
			mu.Unlock()
			return messaging.Success()
		}))
		if round == 4 {
			break
		}
		w.eventually("four hang", func() bool {
			mu.Lock()
			defer mu.Unlock()
			return done >= 24
		})
		gone, cancel := context.WithCancel(context.Background())
		cancel()
		if err := w.k.Stop(gone); err == nil {
			t.Error("the end does not tell what it left")
		}
		close(hang)
	}
	w.settled()
	if len(effects) != all {
		t.Errorf("%d effects, want %d", len(effects), all)
	}
}

// B27: what cannot be decoded goes to parking with its raw bytes and its position, and its partition goes on.
func TestB27_GarbageDoesNotBlockItsPartition(t *testing.T) {
	t.Parallel()
	w := newWorld(t, true, func(c *consume.Config) { c.Ordering = messaging.OrderingPartition })
	w.put("a", 0, 1)
	w.putOne("a", 1, func(m *transport.Message) { m.Value = []byte{0xff, 0xfe, 0x00} })
	w.Put("orders", transport.Message{Value: []byte(`{"n":1}`)})
	w.put("a", 2, 1)
	w.start(w.handle(nil))
	w.settled()
	if n := len(w.made()); n != 2 {
		t.Errorf("%d handled, want 2", n)
	}
	parked := w.Stored("parked-schema")
	if len(parked) != 2 || string(parked[0].Value) != "\xff\xfe\x00" || string(parked[1].Value) != `{"n":1}` {
		t.Fatalf("parked: %v", parked)
	}
	for _, m := range parked {
		if header(m, transport.HeaderDLQPosition) == "" {
			t.Error("the position is missing")
		}
	}
}

// B46: diagnostics are written once and do not grow: not over retries on stages, and not over ten redrives.
func TestB46_HeadersDoNotGrow(t *testing.T) {
	t.Parallel()
	w := newWorld(t, true, func(c *consume.Config) {
		c.Policy = messaging.RetryPolicy{Mode: messaging.ModeRetryDestination, MaxAttempts: 3, InitialDelay: time.Millisecond, MaxDelay: 2 * time.Millisecond, Multiplier: 2}
		c.Stages = []transport.Endpoint{stage(1), stage(2)}
	})
	w.put("a", 0, 1)
	w.start(w.handle(func(context.Context, call) messaging.Result { return transient() }))
	var first []string
	for round := range 10 {
		w.eventually("a dead letter", func() bool { return len(w.Stored("dlq")) == round+1 })
		m := w.Stored("dlq")[round]
		var names []string
		for _, h := range m.Header {
			names = append(names, h.Name)
		}
		slices.Sort(names)
		if round == 0 {
			first = names
		}
		if !slices.Equal(names, first) || len(slices.Compact(slices.Clone(names))) != len(names) {
			t.Fatalf("round %d: %v, the first had %v", round, names, first)
		}
		w.Put("orders", m)
	}
}

// B48: the configured number of calls comes before the dead letter.
func TestB48_EveryTryComesBeforeTheDeadLetter(t *testing.T) {
	t.Parallel()
	w := newWorld(t, true, nil)
	w.put("", 0, 2)
	w.start(w.handle(func(_ context.Context, c call) messaging.Result {
		if c.n == 1 && c.attempt == 3 {
			return messaging.Success()
		}
		return transient()
	}))
	w.settled()
	dead := w.Stored("dlq")
	if n := len(w.made()); n != 6 || len(dead) != 1 || header(dead[0], transport.HeaderDLQAttempts) != "3" {
		t.Errorf("%d calls, want 6; %d dead letters, want 1", n, len(dead))
	}
}

// B70: headers of any form never stop consumption: what no user of the platform could have written is not shown to
// handlers, of a repeated one the first counts, and a hand-over carries all of them as they were.
func TestB70_ForeignHeadersStopNothing(t *testing.T) {
	t.Parallel()
	odd := []transport.Header{
		{Name: "null"},
		{Name: "binary", Value: []byte{0xff, 0xfe}},
		{Name: "twice", Value: []byte("1")},
		{Name: "twice", Value: []byte("2")},
		{Name: "", Value: []byte("nameless")},
		{Name: "msg.unheard-of", Value: []byte("x")},
	}
	w := newWorld(t, true, nil)
	for n := range 2 {
		w.putOne("", n, func(m *transport.Message) { m.Header = append(m.Header, odd...) })
	}
	w.put("", 2, 1)
	shown := map[string]string{}
	w.start(consume.On(created, messaging.HandlerFunc[order](func(_ context.Context, d messaging.Delivery[order]) messaging.Result {
		w.note(d)
		if d.Payload.N == 1 {
			return permanent()
		}
		if d.Payload.N == 0 {
			for name, value := range d.Headers.All() {
				shown[name] = value
			}
		}
		return messaging.Success()
	})))
	w.settled()
	if n := len(w.made()); n != 3 {
		t.Errorf("%d calls, want 3", n)
	}
	if shown["twice"] != "1" || shown["binary"] != "" {
		t.Errorf("the handler sees %v", shown)
	}
	kept := 0
	for _, h := range w.Stored("dlq")[0].Header {
		for _, o := range odd {
			if h.Name == o.Name && string(h.Value) == string(o.Value) {
				kept++
				break
			}
		}
	}
	if kept != len(odd) {
		t.Errorf("%d of %d headers are carried", kept, len(odd))
	}
}

// C11: what failed in one consumer is handled again by that one alone: its stage is its own, and a copy that goes astray
// is settled by every other one without its handler.
func TestC11_ARetryIsItsConsumersOwn(t *testing.T) {
	t.Parallel()
	w := newWorld(t, true, func(c *consume.Config) {
		c.Policy = messaging.RetryPolicy{Mode: messaging.ModeRetryDestination, MaxAttempts: 2, InitialDelay: 20 * time.Millisecond, MaxDelay: 20 * time.Millisecond}
		c.Stages = []transport.Endpoint{stage(1)}
	})
	other := &world{Broker: w.Broker, t: t, place: w.place, ended: map[string]int{}, p: w.p, c: w.c}
	other.c.Name, other.c.Stages, other.c.Policy = "another", nil, messaging.RetryPolicy{Mode: messaging.ModeNone}
	other.c.Hooks = consume.Hooks{}
	w.put("a", 0, 1)
	other.start(other.handle(nil))
	w.start(w.handle(func(_ context.Context, c call) messaging.Result {
		if c.attempt == 1 {
			return transient()
		}
		return messaging.Success()
	}))
	w.eventually("it succeeds", func() bool { return w.outcomes("SUCCESS") == 1 })
	copies := w.Stored("orders.retry.1")
	if len(copies) != 1 || header(copies[0], transport.HeaderForConsumer) != string(name) || header(copies[0], transport.HeaderRetryAttempt) != "1" {
		t.Fatalf("on the stage: %v", copies)
	}
	w.Put("orders", copies[0]) // astray
	w.eventually("both have settled it", func() bool { return len(w.Left("orders", "another")) == 0 && len(w.Left("orders", name)) == 0 })
	if n := len(other.made()); n != 1 {
		t.Errorf("the other consumer handled %d, want 1", n)
	}
}

// C13: what waits in place holds no handler, so that the others are done meanwhile.
func TestC13_WaitingInPlaceHoldsNoHandler(t *testing.T) {
	t.Parallel()
	w := newWorld(t, false, func(c *consume.Config) {
		c.Concurrency, c.Prefetch = 2, 16
		c.Policy = messaging.RetryPolicy{Mode: messaging.ModeInline, MaxAttempts: 2, InitialDelay: 300 * time.Millisecond, MaxDelay: 300 * time.Millisecond}
	})
	w.put("", 0, 8)
	w.put("", 100, 84)
	w.start(w.handle(func(_ context.Context, c call) messaging.Result {
		if c.n < 8 {
			return transient()
		}
		return messaging.Success()
	}))
	w.settled()
	calls := w.made()
	for _, c := range calls[len(calls)-8:] {
		if c.n >= 8 {
			t.Fatal("the good ones waited for those that were tried again")
		}
	}
	if n := len(w.Stored("dlq")); n != 8 {
		t.Errorf("%d dead letters, want 8", n)
	}
}

// C38: max-attempts counts calls, so 1 is exactly one call in every mode.
func TestC38_OneAttemptIsOneCall(t *testing.T) {
	t.Parallel()
	for _, mode := range []messaging.Mode{
		messaging.ModeInline, messaging.ModeBlocking, messaging.ModePausePartition, messaging.ModeRetryDestination, messaging.ModeBrokerDelayed,
	} {
		t.Run(mode.String(), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, false, func(c *consume.Config) {
				c.Policy = messaging.RetryPolicy{Mode: mode, MaxAttempts: 1, InitialDelay: time.Millisecond, MaxDelay: time.Millisecond, Multiplier: 1}
			})
			w.put("a", 0, 5)
			w.start(w.handle(func(context.Context, call) messaging.Result { return transient() }))
			w.settled()
			w.eventually("five dead letters", func() bool { return len(w.Stored("dlq")) == 5 })
			if n := len(w.made()); n != 5 {
				t.Errorf("%d calls for 5 messages", n)
			}
		})
	}
}

// C39: a number is the same to the handler at every try, and the bytes are the same on a stage, as a dead letter and after
// the redrive. A body that cannot be read is parked as it came, under the code that refuses it when it is published.
func TestC39_DigitsStayExactThroughRetryAndRedrive(t *testing.T) {
	t.Parallel()
	const body = `{"n":[2882429806056571124,9223372036854775807,18446744073709551615,9007199254740993,1e400,-0,1.10]}`
	w := newWorld(t, true, func(c *consume.Config) {
		c.Policy = messaging.RetryPolicy{Mode: messaging.ModeRetryDestination, MaxAttempts: 3, InitialDelay: time.Millisecond, MaxDelay: 2 * time.Millisecond, Multiplier: 2}
		c.Stages = []transport.Endpoint{stage(1), stage(2)}
	})
	send := func(text string) {
		w.putOne("a", 0, func(m *transport.Message) { m.Value = []byte(text) })
	}
	send(body)
	var mu sync.Mutex // guards seen
	var seen []string
	w.start(consume.On(messaging.Destination[map[string]any]{Name: created.Name, Type: created.Type, Version: 1},
		messaging.HandlerFunc[map[string]any](func(_ context.Context, d messaging.Delivery[map[string]any]) messaging.Result {
			text, err := json.Marshal(d.Payload)
			mu.Lock()
			defer mu.Unlock()
			if seen = append(seen, string(text)); err == nil && len(seen) > 3 {
				return messaging.Success()
			}
			return transient()
		})))
	w.eventually("a dead letter", func() bool { return len(w.Stored("dlq")) == 1 })
	w.Put("orders", w.Stored("dlq")[0])
	w.settled()
	for _, place := range []string{"orders.retry.1", "orders.retry.2", "dlq"} {
		for _, m := range w.Stored(place) {
			if string(m.Value) != body {
				t.Errorf("%s holds %s", place, m.Value)
			}
		}
	}
	mu.Lock()
	if len(seen) != 4 || slices.ContainsFunc(seen, func(s string) bool { return s != body }) {
		t.Errorf("handlers saw %q", seen)
	}
	mu.Unlock()

	standard := w.c.Codecs[0]
	codes := map[string]string{
		`{"a":1,"a":2}`: messaging.CodeDuplicateKey, strings.Repeat("[", 1001) + strings.Repeat("]", 1001): messaging.CodePayloadTooDeep,
		`"\ud800"`: messaging.CodeMalformedPayload, `{"a":NaN}`: messaging.CodeMalformedPayload, `{"a":1}x`: messaging.CodeMalformedPayload,
		"\ufeff{}": messaging.CodeMalformedPayload,
	}
	for text := range codes {
		send(text)
	}
	w.settled()
	w.eventually("all are parked", func() bool { return len(w.Stored("parked-schema")) == len(codes) })
	for _, m := range w.Stored("parked-schema") {
		want := codes[string(m.Value)]
		if got := header(m, transport.HeaderDLQCode); got != want || want == "" {
			t.Errorf("%.20q is parked as %s, want %s", m.Value, got, want)
		}
		if !json.Valid(m.Value) {
			continue // nothing that is encoded as JSON looks like this
		}
		var f *messaging.Failure
		if _, _, err := standard.Encode(t.Context(), created.Type, 1, json.RawMessage(m.Value)); !errors.As(err, &f) || f.Code != want {
			t.Errorf("%.20q is published with %v, want %s", m.Value, err, want)
		}
	}
}
