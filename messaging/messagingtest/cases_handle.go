package messagingtest

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/backend-skeleton/relay/messaging"
	"github.com/backend-skeleton/relay/messaging/transport"
)

// handlingCases are about a consumer with its handler, over the adapter.
func handlingCases() []contractCase {
	const needs = consuming + " BrokerAcknowledgement"
	return []contractCase{
		{"handler failure", []step{
			{"another attempt and settled after it", needs, anotherAttempt},
			{"a panic is a failure of its delivery", needs, panicIsAFailure},
			{"no verdict is no success", needs, noVerdict},
		}},
		{"retry exhausted", []step{{"the last attempt then the dead-letter queue", needs, retryExhausted}}},
		{"DLQ confirm", []step{
			{"settled after the confirmation", needs, deadLetterConfirm},
			{"the same message with its reason", needs, deadLetterIdentity},
		}},
		{"DLQ failure", []step{
			{"refused and repeated", needs, deadLetterRefused},
			{"ambiguous and repeated under the same id", needs, deadLetterAmbiguous},
		}},
		{"schema failure", []step{
			{"an unreadable payload is parked", needs, unreadableIsParked},
			{"a foreign message is parked raw", needs, foreignIsParked},
		}},
	}
}

// shift is a consumer at work.
type shift struct {
	k                     *kit
	source, dead, parking transport.Endpoint
	stop                  func(context.Context) error

	mu      sync.Mutex // guards what follows
	calls   []messaging.Delivery[Item]
	running map[string]int // handlers per key
	overlap bool
	ended   bool
}

// transient is what a handler that fails says.
func transient() messaging.Failure {
	return *messaging.NewFailure(messaging.CategoryProcessingTransient, messaging.CodeHandlerFailed, "the suite wants it so")
}

// work starts a consumer; f is its handler.
func (k *kit) work(f func(d messaging.Delivery[Item]) messaging.Result, change ...func(*Consuming)) *shift {
	k.Helper()
	s := &shift{k: k, source: k.place("source"), dead: k.place("dead"), parking: k.place("parking"), running: map[string]int{}}
	c := Consuming{
		Adapter: k.spy, Codec: codec(), MaxAttempts: 3, Concurrency: 4, DeadLetter: s.dead, Parking: s.parking,
		Subscription: transport.Subscription{Endpoint: s.source, Consumer: "contract", Prefetch: 16, MaxBufferedBytes: 16 << 20},
		Handler: messaging.HandlerFunc[Item](func(_ context.Context, d messaging.Delivery[Item]) messaging.Result {
			leave := s.enter(d)
			defer leave()
			return f(d)
		}),
	}
	for _, f := range change {
		f(&c)
	}
	ctx, cancel := k.bounded()
	defer cancel()
	stop, err := k.s.Runtime(ctx, c)
	if err != nil {
		k.Fatalf("start the consumer: %v", err)
	}
	s.stop = stop
	k.Cleanup(s.end)
	return s
}

// enter notes a call; leave notes its end.
func (s *shift) enter(d messaging.Delivery[Item]) (leave func()) {
	id := d.ID.String()
	s.k.spy.note(event{what: "started", id: id})
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls = append(s.calls, d)
	if s.running[d.OrderingKey]++; s.running[d.OrderingKey] > 1 && d.OrderingKey != "" {
		s.overlap = true
	}
	return func() {
		s.mu.Lock()
		s.running[d.OrderingKey]--
		s.mu.Unlock()
		s.k.spy.note(event{what: "ended", id: id})
	}
}

// end stops the consumer, once.
func (s *shift) end() {
	s.mu.Lock()
	ended := s.ended
	s.ended = true
	s.mu.Unlock()
	if ended {
		return
	}
	ctx, cancel := s.k.bounded()
	defer cancel()
	if err := s.stop(ctx); err != nil {
		s.k.Errorf("stop the consumer: %v", err)
	}
}

// of gives the calls for a message.
func (s *shift) of(m transport.Message) (out []messaging.Delivery[Item]) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, d := range s.calls {
		if d.ID == m.ID {
			out = append(out, d)
		}
	}
	return out
}

// settled waits until the consumer has settled the message, ends it, and holds the broker to it.
func (s *shift) settled(ms ...transport.Message) {
	s.k.Helper()
	for _, m := range ms {
		s.k.eventually("the message is settled", func() bool { return s.k.spy.happened("settling", m) })
	}
	s.end()
	r := s.k.subscribe(s.source)
	s.k.never("delivered again, though it was settled", func() bool {
		return slices.ContainsFunc(ms, func(m transport.Message) bool { return len(r.of(m)) > 0 })
	})
}

// attempts holds the calls for a message against the numbers from 1 to n.
func (s *shift) attempts(m transport.Message, n int) {
	s.k.Helper()
	calls := s.of(m)
	if len(calls) != n {
		s.k.Errorf("%d calls, want %d", len(calls), n)
	}
	for i, d := range calls {
		if d.Meta.Attempt != i+1 {
			s.k.Errorf("call %d has the attempt %d", i+1, d.Meta.Attempt)
		}
	}
}

func handlerBeforeSettlement(k *kit) {
	gate := make(chan struct{})
	open := sync.OnceFunc(func() { close(gate) })
	s := k.work(func(messaging.Delivery[Item]) messaging.Result { <-gate; return messaging.Success() })
	k.Cleanup(open)
	m := k.messages("key", 7, 1)
	k.confirmed(s.source, m...)
	k.eventually("the handler is at work", func() bool { return len(s.of(m[0])) == 1 })
	k.never("settled while the handler was at work", func() bool { return k.spy.happened("settling", m[0]) })
	open()
	s.settled(m...)
	s.attempts(m[0], 1)
	if d := s.of(m[0])[0]; d.Payload.N != 7 || d.Type != ItemType || d.Meta.Consumer != "contract" || d.Meta.Unit == "" {
		k.Errorf("the handler got %+v", d.Meta)
	}
}

func anotherAttempt(k *kit) {
	s := k.work(func(d messaging.Delivery[Item]) messaging.Result {
		if d.Meta.Attempt < 3 {
			return messaging.Retry(transient())
		}
		return messaging.Success()
	})
	m := k.messages("key", 0, 1)
	k.confirmed(s.source, m...)
	s.settled(m...)
	s.attempts(m[0], 3)
	if n := len(k.stored(s.dead)); n != 0 {
		k.Errorf("%d dead letters of a message that succeeded", n)
	}
}

func panicIsAFailure(k *kit) {
	s := k.work(func(d messaging.Delivery[Item]) messaging.Result {
		if d.Payload.N == 0 && d.Meta.Attempt == 1 {
			panic("the suite wants it so")
		}
		return messaging.Success()
	})
	ms := k.messages("key", 0, 2)
	k.confirmed(s.source, ms...)
	s.settled(ms...)
	s.attempts(ms[0], 2)
	s.attempts(ms[1], 1)
}

func noVerdict(k *kit) {
	s := k.work(func(messaging.Delivery[Item]) messaging.Result { return messaging.Result{} })
	m := k.messages("key", 0, 1)
	k.confirmed(s.source, m...)
	s.settled(m...)
	s.attempts(m[0], 3)
	s.isDead(m[0], 3, messaging.CodeNoVerdict)
}

func retryExhausted(k *kit) {
	s := k.work(func(messaging.Delivery[Item]) messaging.Result { return messaging.Retry(transient()) })
	m := k.messages("key", 0, 1)
	k.confirmed(s.source, m...)
	s.settled(m...)
	s.attempts(m[0], 3)
	s.isDead(m[0], 3, messaging.CodeHandlerFailed)
}

// isDead holds the dead letters of a message against what it was.
func (s *shift) isDead(m transport.Message, attempts int, code string) {
	s.k.Helper()
	letters := s.k.stored(s.dead)
	if len(letters) == 0 {
		s.k.Errorf("there is no dead letter")
	}
	for _, l := range letters {
		s.isCopy(m, l)
		if got := header(l, headerAttempts); got != fmt.Sprint(attempts) {
			s.k.Errorf("%s is %q, want %d", headerAttempts, got, attempts)
		}
		if got := header(l, headerCode); got != code {
			s.k.Errorf("%s is %q, want %s", headerCode, got, code)
		}
		if header(l, headerCategory) == "" {
			s.k.Errorf("%s is absent", headerCategory)
		}
	}
}

// isCopy holds a handed-over message against the original: the hand-over may add headers, and change nothing.
func (s *shift) isCopy(m, l transport.Message) {
	s.k.Helper()
	if header(l, transport.HeaderID) != header(m, transport.HeaderID) || string(l.Value) != string(m.Value) {
		s.k.Errorf("a hand-over has another id or payload")
	}
	for _, h := range m.Header {
		if header(l, h.Name) != string(h.Value) {
			s.k.Errorf("a hand-over has lost or changed header %s", h.Name)
		}
	}
}

func deadLetter(messaging.Delivery[Item]) messaging.Result {
	return messaging.DeadLetter(*messaging.NewFailure(messaging.CategoryPermanentBusiness, messaging.CodeHandlerFailed, "the suite wants it so"))
}

func deadLetterConfirm(k *kit) {
	s := k.work(deadLetter)
	undo := k.inject(Fault{Kind: LateAck, Destination: string(s.dead.Name), Count: 1})
	m := k.messages("key", 0, 1)
	k.confirmed(s.source, m...)
	k.eventually("the dead letter is stored", func() bool { return len(k.stored(s.dead)) > 0 })
	k.never("settled before the dead letter was confirmed", func() bool { return k.spy.happened("settling", m[0]) })
	undo()
	s.settled(m...)
	s.confirmedFirst(m[0])
}

// confirmedFirst holds the order of confirmation and settlement.
func (s *shift) confirmedFirst(m transport.Message) {
	s.k.Helper()
	confirmed, settled := s.k.spy.where("confirmed", m), s.k.spy.where("settling", m)
	if confirmed < 0 || settled < confirmed {
		s.k.Errorf("the source was settled before the hand-over was confirmed")
	}
}

func deadLetterIdentity(k *kit) {
	s := k.work(deadLetter)
	m := k.messages("key", 0, 1)
	k.confirmed(s.source, m...)
	s.settled(m...)
	s.attempts(m[0], 1)
	s.confirmedFirst(m[0])
	s.isDead(m[0], 1, messaging.CodeHandlerFailed)
}

func deadLetterRefused(k *kit) { deadLetterTrouble(k, Nack) }

func deadLetterAmbiguous(k *kit) { deadLetterTrouble(k, Cut) }

func deadLetterTrouble(k *kit, kind FaultKind) {
	s := k.work(deadLetter)
	undo := k.inject(Fault{Kind: kind, Destination: string(s.dead.Name)})
	ms := k.messages("key", 0, 1)
	k.confirmed(s.source, ms...)
	k.eventually("the dead letter is tried", func() bool { return k.spy.happened("publishing", ms[0]) })
	k.never("settled without a confirmed dead letter", func() bool { return k.spy.happened("settling", ms[0]) })
	undo()
	s.settled(ms...)
	s.attempts(ms[0], 1)
	s.confirmedFirst(ms[0])
	s.isDead(ms[0], 1, messaging.CodeHandlerFailed)
}

func unreadableIsParked(k *kit) {
	s := k.work(func(messaging.Delivery[Item]) messaging.Result { return messaging.Success() })
	bad, good := k.messages("key", 0, 1)[0], k.messages("key", 1, 1)[0]
	bad.Value = []byte(`{"n":`)
	k.confirmed(s.source, bad)
	k.confirmed(s.source, good)
	s.settled(bad, good)
	s.attempts(bad, 0)
	s.attempts(good, 1)
	s.confirmedFirst(bad)
	parked := k.stored(s.parking)
	if len(parked) == 0 || len(k.stored(s.dead)) > 0 {
		k.Fatalf("%d parked, %d dead letters", len(parked), len(k.stored(s.dead)))
	}
	s.isCopy(bad, parked[0])
}

func foreignIsParked(k *kit) {
	s := k.work(func(messaging.Delivery[Item]) messaging.Result { return messaging.Success() })
	foreign := transport.Message{NullKey: true, Value: []byte("hello"), Header: []transport.Header{{Name: "x-origin", Value: []byte("elsewhere")}}}
	good := k.messages("key", 1, 1)[0]
	k.confirmed(s.source, foreign)
	k.confirmed(s.source, good)
	k.eventually("it is parked", func() bool { return len(k.stored(s.parking)) > 0 })
	s.settled(good)
	parked := k.stored(s.parking)[0]
	if string(parked.Value) != "hello" || header(parked, "x-origin") != "elsewhere" {
		k.Errorf("parked with another payload or without its headers")
	}
	if header(parked, transport.HeaderID) != "" || header(parked, transport.HeaderType) != "" {
		k.Errorf("a foreign message was given an identity")
	}
}
