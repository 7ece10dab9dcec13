package messagingtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/backend-skeleton/relay/messaging"
	"github.com/backend-skeleton/relay/messaging/codec/json"
	"github.com/backend-skeleton/relay/messaging/transport"
)

// kit is what a step works with: one subject and ways to ask it.
type kit struct {
	testing.TB
	s   Subject
	o   *outcome
	spy *spy

	publisher transport.Publisher // of the step, made when it is needed
	places    []transport.Endpoint
	warmUps   map[string]bool // ids of messages that only opened the way
}

func newKit(tb testing.TB, open func(testing.TB) Subject, o *outcome) *kit {
	tb.Helper()
	if o == nil {
		o = &outcome{}
	}
	k := &kit{TB: tb, s: open(tb), o: o}
	if k.s.Adapter == nil || k.s.Place == nil {
		tb.Fatal("the subject has no adapter or makes no places")
	}
	if k.s.Patience <= 0 {
		k.s.Patience = 20 * time.Second
	}
	if k.s.Quiet <= 0 {
		k.s.Quiet = 250 * time.Millisecond
	}
	if k.s.Runtime == nil {
		k.s.Runtime = simpleRuntime
	}
	k.spy = &spy{Adapter: k.s.Adapter}
	tb.Cleanup(func() {
		ctx, cancel := k.bounded()
		defer cancel()
		if k.publisher != nil {
			_ = k.publisher.Close(ctx)
		}
		if err := k.s.Adapter.Close(ctx); err != nil && !errors.Is(err, messaging.ErrClosed) {
			tb.Errorf("close the adapter: %v", err)
		}
	})
	return k
}

// bounded gives a context for what must not take longer than the patience.
func (k *kit) bounded() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), k.s.Patience)
}

// able asks for the capabilities of a place.
func (k *kit) able() messaging.Capabilities {
	k.Helper()
	ctx, cancel := k.bounded()
	defer cancel()
	if len(k.places) == 0 {
		k.place("source")
	}
	able, err := k.s.Adapter.Capabilities(ctx, k.places[0])
	if err != nil {
		k.Fatalf("capabilities: %v", err)
	}
	return able
}

// refusesToSubscribe holds an adapter without consuming half to its word.
func (k *kit) refusesToSubscribe() {
	k.Helper()
	ctx, cancel := k.bounded()
	defer cancel()
	s := transport.Subscription{Endpoint: k.place("source"), Consumer: "contract", Prefetch: 1}
	if c, err := k.s.Adapter.Subscribe(ctx, s, &sink{}); !errors.Is(err, messaging.ErrCapabilityUnavailable) {
		if c != nil {
			_ = c.Close(ctx)
		}
		k.Errorf("there is a consuming half, or its refusal is not ErrCapabilityUnavailable: %v", err)
	}
}

// inject makes a fault happen, or ends the step.
func (k *kit) inject(f Fault) (undo func()) {
	k.Helper()
	if k.s.Inject == nil {
		k.unproved("the set-up cannot inject " + string(f.Kind))
	}
	undo, err := k.s.Inject(f)
	switch {
	case err == nil:
		k.Cleanup(undo)
		return undo
	case errors.Is(err, ErrNoSuchFailure):
		k.o.impossible = "the broker knows no " + string(f.Kind)
		k.SkipNow()
	case errors.Is(err, errors.ErrUnsupported):
		k.unproved("the set-up cannot inject " + string(f.Kind))
	default:
		k.Fatalf("inject %s: %v", f.Kind, err)
	}
	return nil
}

// unproved ends the step without a verdict.
func (k *kit) unproved(why string) {
	k.Helper()
	k.o.unproved = append(k.o.unproved, why)
	k.Skipf("not proved: %s", why)
}

// stored reads a place behind the adapter's back.
func (k *kit) stored(e transport.Endpoint) []transport.Message {
	k.Helper()
	if k.s.Stored == nil {
		k.unproved("the set-up cannot read what is stored")
	}
	return slices.DeleteFunc(k.s.Stored(e), func(m transport.Message) bool { return k.warmUps[header(m, transport.HeaderID)] })
}

// place makes a place of the step's own.
func (k *kit) place(name messaging.DestinationName) transport.Endpoint {
	k.Helper()
	e := k.s.Place(name)
	k.places = append(k.places, e)
	return e
}

// warm makes a place to which the way is open: connection, metadata and channels are there, so that a fault strikes the
// message and not the way to it.
func (k *kit) warm(name messaging.DestinationName) transport.Endpoint {
	k.Helper()
	e := k.place(name)
	m := k.messages("", -1, 1)
	k.given(e, m...)
	if k.warmUps == nil {
		k.warmUps = map[string]bool{}
	}
	k.warmUps[m[0].ID.String()] = true
	return e
}

// eventually waits for what must come.
func (k *kit) eventually(what string, condition func() bool) {
	k.Helper()
	if !k.within(k.s.Patience, condition) {
		k.Fatalf("not within %v: %s", k.s.Patience, what)
	}
}

// never watches for what must not come.
func (k *kit) never(what string, condition func() bool) {
	k.Helper()
	if k.within(k.s.Quiet, condition) {
		k.Fatalf("%s", what)
	}
}

func (k *kit) within(limit time.Duration, condition func() bool) bool {
	deadline := time.NewTimer(limit)
	defer deadline.Stop()
	again := time.NewTicker(5 * time.Millisecond)
	defer again.Stop()
	for !condition() {
		select {
		case <-again.C:
		case <-deadline.C:
			return condition()
		}
	}
	return true
}

// messages makes n messages of a key; their payloads are numbered from first.
func (k *kit) messages(key string, first, n int) []transport.Message {
	k.Helper()
	ms := make([]transport.Message, n)
	for i := range ms {
		ms[i] = k.message(key, Item{N: first + i})
	}
	return ms
}

// message makes one as the platform does, with everything that an envelope can hold.
func (k *kit) message(key string, payload Item) transport.Message {
	k.Helper()
	body, _, err := codec().Encode(context.Background(), ItemType, 1, payload)
	if err != nil {
		k.Fatalf("encode: %v", err)
	}
	headers, err := messaging.NewHeaders(map[string]string{"x-shop": "Köln 7", "x-empty-ish": "-"})
	if err != nil {
		k.Fatalf("headers: %v", err)
	}
	now := time.Now().UTC()
	f := transport.WireFields{
		ID: messaging.NewMessageID(), Type: ItemType, SchemaVersion: 1, Producer: "contract", ProducedAt: now, OccurredAt: now,
		ContentType: json.ContentType, Correlation: "order-4711", Causation: messaging.CausationID{MessageID: messaging.NewMessageID()},
		OrderingKey: key, Headers: headers,
		Trace: messaging.TraceContext{Parent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"},
	}
	m := transport.Message{ID: f.ID, Value: body, Header: transport.EncodeHeaders(&f), PublishedAt: now}
	m.Key, m.NullKey = transport.RecordKey(key, "")
	return m
}

func codec() messaging.Codec {
	c, err := json.New(json.Config{})
	if err != nil {
		panic("the default codec is refused: " + err.Error()) // a broken build, no input
	}
	return c
}

// same tells what differs between a message that was sent and one that arrived.
func same(sent, got transport.Message) string {
	switch {
	case header(sent, transport.HeaderID) != header(got, transport.HeaderID):
		return "another msg.id"
	case !bytes.Equal(sent.Value, got.Value):
		return "another payload"
	}
	for _, h := range sent.Header {
		if header(got, h.Name) != string(h.Value) {
			return "header " + h.Name + " is lost or changed"
		}
	}
	for _, h := range got.Header {
		if strings.HasPrefix(h.Name, "msg.") && header(sent, h.Name) == "" {
			return "header " + h.Name + " was added"
		}
	}
	return ""
}

// find gives the message of an id.
func find(ms []transport.Message, like transport.Message) []transport.Message {
	var out []transport.Message
	for _, m := range ms {
		if header(m, transport.HeaderID) == header(like, transport.HeaderID) {
			out = append(out, m)
		}
	}
	return out
}

// answers collects what done says about one call.
type answers struct {
	k       *kit
	mu      sync.Mutex // guards what follows
	results []messaging.PublishResult
	given   []int
}

func (a *answers) done(i int, r messaging.PublishResult) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if i < 0 || i >= len(a.given) {
		a.k.Errorf("done for index %d of %d", i, len(a.given))
		return
	}
	if a.given[i]++; a.given[i] > 1 {
		a.k.Errorf("done more than once for index %d", i)
		return
	}
	if r.Completion == 0 || r.Evidence.Transmission == 0 || r.Evidence.Level == 0 || r.Routing == 0 ||
		(r.Failure == nil) != (r.Completion == messaging.Confirmed) {
		a.k.Errorf("index %d has an incomplete result: %+v", i, r)
	}
	a.results[i] = r
}

// missing counts the messages without an answer.
func (a *answers) missing() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	n := 0
	for _, g := range a.given {
		if g == 0 {
			n++
		}
	}
	return n
}

// has tells whether any message was answered in this way.
func (a *answers) has(c messaging.Completion) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.ContainsFunc(a.results, func(r messaging.PublishResult) bool { return r.Completion == c })
}

func (a *answers) wait() []messaging.PublishResult {
	a.k.Helper()
	a.k.eventually("every message has its answer", func() bool { return a.missing() == 0 })
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.results)
}

// to gives the step's publisher.
func (k *kit) to() transport.Publisher {
	k.Helper()
	if k.publisher == nil {
		ctx, cancel := k.bounded()
		defer cancel()
		p, err := k.s.Adapter.Publisher(ctx, k.places)
		if err != nil {
			k.Fatalf("publisher: %v", err)
		}
		k.publisher = p
	}
	return k.publisher
}

// send publishes and gives the answers that come.
func (k *kit) send(ctx context.Context, e transport.Endpoint, ms ...transport.Message) *answers {
	k.Helper()
	a := &answers{k: k, results: make([]messaging.PublishResult, len(ms)), given: make([]int, len(ms))}
	k.to().Publish(ctx, e, ms, a.done)
	return a
}

// publish waits for the answers.
func (k *kit) publish(e transport.Endpoint, ms ...transport.Message) []messaging.PublishResult {
	k.Helper()
	ctx, cancel := k.bounded()
	defer cancel()
	return k.send(ctx, e, ms...).wait()
}

// confirmed publishes what has to be confirmed.
func (k *kit) confirmed(e transport.Endpoint, ms ...transport.Message) {
	k.Helper()
	for i, r := range k.publish(e, ms...) {
		if r.Completion != messaging.Confirmed {
			k.Fatalf("message %d of %d: %s", i, len(ms), told(r))
		}
	}
}

// given publishes what has to be there, at a broker that may answer nothing.
func (k *kit) given(e transport.Endpoint, ms ...transport.Message) {
	k.Helper()
	for i, r := range k.publish(e, ms...) {
		if r.Completion == messaging.Rejected {
			k.Fatalf("message %d of %d: %s", i, len(ms), told(r))
		}
	}
}

// told is a result in words.
func told(r messaging.PublishResult) string {
	text := fmt.Sprintf("%v, %v, %v", r.Completion, r.Evidence.Transmission, r.Evidence.Level)
	if r.Failure != nil {
		text += ", " + r.Failure.Category.String() + " " + r.Failure.Code
	}
	return text
}
