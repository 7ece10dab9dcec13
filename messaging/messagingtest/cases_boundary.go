package messagingtest

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/backend-skeleton/relay/messaging"
	"github.com/backend-skeleton/relay/messaging/transport"
)

// boundaryCases are about order, limits, access, life cycle and what is told to the outside.
func boundaryCases() []contractCase {
	return []contractCase{
		{"ordering scope", []step{
			{"stored in the order of the key", "KeyedOrdering", storedInOrder},
			{"of one call a prefix is stored", "KeyedOrdering BrokerAcknowledgement", storedPrefix},
			{"delivered in the order of the key", consuming + " KeyedOrdering", deliveredInOrder},
			{"one at a time where it is strict", consuming, strictlyOne},
			{"handled in the order of the key through a retry", consuming + " KeyedOrdering BrokerAcknowledgement", handledInOrder},
		}},
		{"payload limit", []step{
			{"the platform limit arrives whole", "", largeArrives},
			{"over the broker limit refused alone", "BrokerAcknowledgement", tooLarge},
			{"no more in hand than the prefetch", consuming + " PerMessageSettlement", prefetchHolds},
		}},
		{"header policy", []step{
			{"published as they are and none added", "", headersStored},
			{"delivered as they are and none added", consuming, headersDelivered},
		}},
		{"credential", []step{{"refused", "", func(k *kit) { k.refused(BadCredential, messaging.CategoryAuthentication) }}}},
		{"ACL", []step{{"refused", "", func(k *kit) { k.refused(NoRight, messaging.CategoryAuthorization) }}}},
		{"TLS failure", []step{{"refused", "", func(k *kit) { k.refused(BadCertificate, messaging.CategoryAuthentication) }}}},
		{"graceful shutdown", []step{
			{"closing waits for answers", "BrokerAcknowledgement", closingWaits},
			{"closed nothing is sent", "", closedSendsNothing},
			{"stopped settlements still work", consuming, stoppedStillSettles},
			{"running handlers end none begins", consuming + " BrokerAcknowledgement", handlersEnd},
		}},
		{"cardinality", []step{
			{"failures name no message", "BrokerAcknowledgement", failuresNameNothing},
			{"units do not grow with messages", consuming, unitsDoNotGrow},
		}},
	}
}

// mixed makes n messages of each of three keys, in turns.
func (k *kit) mixed(n int) []transport.Message {
	var ms []transport.Message
	for i := range n {
		for _, key := range []string{"a", "b", "c"} {
			ms = append(ms, k.messages(key, i, 1)...)
		}
	}
	return ms
}

// byKey gives the ids of each key in their order, the first copy of each.
func byKey(ms []transport.Message) map[string][]string {
	out, seen := map[string][]string{}, map[string]bool{}
	for _, m := range ms {
		key, id := header(m, transport.HeaderOrderingKey), header(m, transport.HeaderID)
		if !seen[id] {
			seen[id] = true
			out[key] = append(out[key], id)
		}
	}
	return out
}

func (k *kit) inOrder(what string, sent, got []transport.Message) {
	k.Helper()
	want, is := byKey(sent), byKey(got)
	for _, key := range slices.Sorted(maps.Keys(want)) {
		if !slices.Equal(want[key], is[key]) {
			k.Errorf("%s: the order of a key is broken, or messages are missing (%d of %d)", what, len(is[key]), len(want[key]))
		}
	}
}

func storedInOrder(k *kit) {
	source, ms := k.place("source"), k.mixed(10)
	k.given(source, ms...)
	k.eventually("all are stored", func() bool { return len(k.stored(source)) >= len(ms) })
	k.inOrder("stored", ms, k.stored(source))
}

func storedPrefix(k *kit) {
	source, ms := k.warm("source"), k.messages("key", 0, 5)
	p, able := k.to().(transport.KeyPrefixer)
	if !able || !p.KeyPrefix(source) {
		k.o.impossible = "the publisher promises no prefix"
		k.SkipNow()
	}
	k.inject(Fault{Kind: Nack, Destination: string(source.Name), After: 2, Count: 1})
	rs := k.publish(source, ms...)
	stored := k.stored(source)
	for i, m := range ms {
		there := len(find(stored, m)) > 0
		if there != (i < len(stored)) {
			k.Errorf("what is stored is no prefix")
		}
		if there && rs[i].Completion == messaging.Rejected || !there && rs[i].Completion == messaging.Confirmed {
			k.Errorf("message %d: %s, and stored is %v", i, told(rs[i]), there)
		}
	}
}

func deliveredInOrder(k *kit) {
	source, ms := k.place("source"), k.mixed(10)
	k.given(source, ms...)
	r := k.subscribe(source)
	k.eventually("all are delivered", func() bool { return r.count() >= len(ms) })
	var got []transport.Message
	for _, d := range r.deliveries() {
		got = append(got, d.Message)
		r.ack(d)
	}
	k.inOrder("delivered", ms, got)
}

func strictlyOne(k *kit) {
	source, ms := k.place("source"), k.messages("key", 0, 2)
	k.given(source, ms...)
	r := k.subscribe(source, func(s *transport.Subscription, _ *sink) { s.Strict = true })
	k.eventually("the first is delivered", func() bool { return r.count() > 0 })
	byUnit := func() bool {
		ds := r.deliveries()
		return len(ds) > 1 && ds[0].Unit == ds[1].Unit
	}
	k.never("two of one unit in hand", byUnit)
	r.ack(r.deliveries()[0])
	k.eventually("the next is delivered", func() bool { return r.count() == 2 })
	r.ack(r.deliveries()[1])
}

func handledInOrder(k *kit) {
	s := k.work(func(d messaging.Delivery[Item]) messaging.Result {
		if d.Payload.N == 1 && d.Meta.Attempt == 1 {
			return messaging.Retry(transient())
		}
		return messaging.Success()
	}, func(c *Consuming) { c.Ordered = true })
	ms := k.mixed(5)
	k.confirmed(s.source, ms...)
	s.settled(ms...)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.overlap {
		k.Errorf("two handlers of one key at the same time")
	}
	last := map[string]int{}
	for _, d := range s.calls {
		if d.Payload.N < last[d.OrderingKey] {
			k.Errorf("a message was handled after its successor")
		}
		last[d.OrderingKey] = d.Payload.N
	}
}

// logicalLimit is the largest payload that the platform sends as it is, by default.
const logicalLimit = 1 << 20

func largeArrives(k *kit) {
	source := k.place("source")
	m := k.message("key", Item{Text: strings.Repeat("x", logicalLimit-64)})
	k.given(source, m)
	k.eventually("it is stored", func() bool { return len(k.stored(source)) == 1 })
	if d := same(m, k.stored(source)[0]); d != "" {
		k.Errorf("a message of the limit's size: %s", d)
	}
}

func tooLarge(k *kit) {
	if k.s.MaxBytes == 0 {
		k.o.impossible = "the broker has no limit"
		k.SkipNow()
	}
	source, ms := k.place("source"), k.messages("", 0, 3)
	ms[1].Value = make([]byte, k.s.MaxBytes+1)
	for i, r := range k.publish(source, ms...) {
		if i != 1 && r.Completion != messaging.Confirmed {
			k.Errorf("message %d, a neighbour of one that is too large: %s", i, told(r))
		}
		if i == 1 && (r.Completion != messaging.Rejected || r.Failure.Code != messaging.CodeTooLarge || r.Failure.Retryable) {
			k.Errorf("too large: %s", told(r))
		}
	}
	k.eventually("its neighbours are stored", func() bool { return len(k.stored(source)) == 2 })
}

func prefetchHolds(k *kit) {
	source, ms := k.place("source"), k.messages("key", 0, 5)
	k.given(source, ms...)
	r := k.subscribe(source, func(s *transport.Subscription, _ *sink) { s.Prefetch = 2 })
	k.eventually("the first are delivered", func() bool { return r.count() >= 2 })
	k.never("more in hand than the prefetch", func() bool { return r.count() > 2 })
	for i := range ms {
		k.eventually("the next is delivered", func() bool { return r.count() > i })
		r.ack(r.deliveries()[i])
	}
}

func headersStored(k *kit) {
	source, m := k.place("source"), k.messages("key", 0, 1)[0]
	k.given(source, m)
	k.eventually("it is stored", func() bool { return len(k.stored(source)) == 1 })
	k.headersOf(m, k.stored(source)[0])
}

func headersDelivered(k *kit) {
	source, m := k.place("source"), k.messages("key", 0, 1)[0]
	k.given(source, m)
	r := k.subscribe(source)
	d := r.next(m, 1)
	k.headersOf(m, d.Message)
	r.ack(d)
}

func (k *kit) headersOf(m, got transport.Message) {
	k.Helper()
	if d := same(m, got); d != "" {
		k.Errorf("%s", d)
	}
	want, err := transport.DecodeHeaders(m.Header)
	is, err2 := transport.DecodeHeaders(got.Header)
	if err != nil || err2 != nil {
		k.Fatalf("headers: %v, %v", err, err2)
	}
	if !maps.Equal(maps.Collect(want.Headers.All()), maps.Collect(is.Headers.All())) {
		k.Errorf("user headers are lost, changed or added")
	}
}

// refused publishes under an identity that the broker refuses.
func (k *kit) refused(d Denial, category messaging.Category) {
	k.Helper()
	source := k.place("source")
	if k.s.As == nil {
		k.unproved("the set-up has no identity that is refused")
	}
	denied, err := k.s.As(d)
	if errors.Is(err, ErrNoSuchFailure) {
		k.o.impossible = "the broker refuses nobody for that"
		k.SkipNow()
	}
	if err != nil {
		k.unproved("the set-up has no identity that is refused: " + err.Error())
	}
	ctx, cancel := k.bounded()
	defer cancel()
	defer func() {
		if err := denied.Close(ctx); err != nil {
			k.Errorf("close: %v", err)
		}
	}()
	p, err := denied.Publisher(ctx, []transport.Endpoint{source})
	if err != nil {
		k.Fatalf("publisher: %v", err)
	}
	m := k.messages("key", 0, 1)
	a := &answers{k: k, results: make([]messaging.PublishResult, 1), given: make([]int, 1)}
	p.Publish(ctx, source, m, a.done)
	r := a.wait()[0]
	if r.Completion != messaging.Rejected || r.Failure.Category != category || r.Failure.Retryable {
		k.Errorf("refused by the broker: %s", told(r))
	}
	if n := len(k.stored(source)); n != 0 {
		k.Errorf("%d stored under an identity that is refused", n)
	}
	if err := p.Close(ctx); err != nil {
		k.Errorf("close the publisher: %v", err)
	}
}

func closingWaits(k *kit) {
	source := k.warm("source")
	undo := k.inject(Fault{Kind: LateAck, Destination: string(source.Name), Count: 1})
	ctx, cancel := k.bounded()
	defer cancel()
	a := k.send(ctx, source, k.messages("key", 0, 1)...)
	var mu sync.Mutex
	var closed, answered bool
	over := make(chan error, 1)
	go func() {
		err := k.to().Close(ctx)
		mu.Lock()
		closed, answered = true, a.missing() == 0
		mu.Unlock()
		over <- err
	}()
	k.never("closed while an answer was open", func() bool { mu.Lock(); defer mu.Unlock(); return closed })
	undo()
	if err := <-over; err != nil || !answered {
		k.Errorf("closed: %v, answered %v", err, answered)
	}
}

func closedSendsNothing(k *kit) {
	source := k.place("source")
	ctx, cancel := k.bounded()
	defer cancel()
	k.given(source, k.messages("key", 0, 1)...)
	if err := k.to().Close(ctx); err != nil {
		k.Errorf("close: %v", err)
	}
	r := k.publish(source, k.messages("key", 1, 1)...)[0]
	if r.Completion != messaging.Rejected || r.Evidence.Transmission != messaging.NotTransmitted {
		k.Errorf("after the end: %s", told(r))
	}
}

func stoppedStillSettles(k *kit) {
	source, ms := k.place("source"), k.messages("key", 0, 2)
	k.given(source, ms[0])
	r := k.subscribe(source)
	d := r.next(ms[0], 1)
	ctx, cancel := k.bounded()
	defer cancel()
	if err := r.c.Stop(ctx); err != nil {
		k.Errorf("stop: %v", err)
	}
	k.given(source, ms[1])
	k.never("delivered after the stop", func() bool { return r.count() > 1 })
	r.ack(d)
	r.close()
	again := k.subscribe(source)
	again.ack(again.next(ms[1], 1))
	k.never("delivered again, though it was settled", func() bool { return len(again.of(ms[0])) > 0 })
}

func handlersEnd(k *kit) {
	gate := make(chan struct{})
	open := sync.OnceFunc(func() { close(gate) })
	s := k.work(func(messaging.Delivery[Item]) messaging.Result { <-gate; return messaging.Success() }, func(c *Consuming) { c.Concurrency, c.Ordered = 1, true })
	k.Cleanup(open)
	ms := k.messages("key", 0, 2)
	k.confirmed(s.source, ms...)
	k.eventually("the first is at work", func() bool { return k.spy.happened("started", ms[0]) })
	over := make(chan struct{})
	go func() {
		defer close(over)
		s.end()
	}()
	k.never("stopped while a handler was at work, or another began", func() bool {
		select {
		case <-over:
			return true
		default:
			return k.spy.happened("started", ms[1])
		}
	})
	open()
	<-over
	if k.spy.happened("started", ms[1]) {
		k.Errorf("a handler began after the stop")
	}
	r := k.subscribe(s.source)
	r.ack(r.next(ms[1], 1))
	k.never("what a handler had finished was delivered again", func() bool { return len(r.of(ms[0])) > 0 })
}

func failuresNameNothing(k *kit) {
	if k.s.Nowhere == nil {
		k.unproved("the set-up knows no place that does not exist")
	}
	k.place("source")
	nowhere, texts := k.s.Nowhere(), map[string]bool{}
	var secrets []string
	var ms []transport.Message
	for i := range 20 {
		m := k.message(fmt.Sprintf("key-of-customer-%d", i), Item{N: i, Text: "a secret text"})
		ms = append(ms, m)
		secrets = append(secrets, m.ID.String(), string(m.Key))
	}
	for _, r := range k.publish(nowhere, ms...) {
		if r.Failure == nil {
			k.Fatalf("to a place that does not exist: %s", told(r))
		}
		texts[r.Failure.Error()] = true
	}
	if len(texts) > 4 {
		k.Errorf("%d texts for one kind of failure", len(texts))
	}
	said := strings.Join(slices.Collect(maps.Keys(texts)), "\n")
	if k.s.Logs != nil {
		said += k.s.Logs()
	}
	for _, secret := range append(secrets, "a secret text", "Köln 7", "order-4711") {
		if strings.Contains(said, secret) {
			k.Errorf("an id, a key, a header or a payload was told to the outside")
			return
		}
	}
}

func unitsDoNotGrow(k *kit) {
	source := k.place("source")
	r := k.subscribe(source)
	k.eventually("units are assigned", func() bool { return len(r.units()) > 0 })
	const n = 40
	for i := range n {
		k.given(source, k.messages(fmt.Sprint("key", i), i, 1)...)
	}
	k.eventually("all are delivered", func() bool { return r.count() >= n })
	names := map[string]bool{}
	for _, d := range r.deliveries() {
		names[d.Unit.Name] = true
		r.ack(d)
	}
	if len(names) > len(r.units()) {
		k.Errorf("%d units, %d are assigned", len(names), len(r.units()))
	}
}
