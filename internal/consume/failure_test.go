package consume_test

import (
	"context"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/backend-skeleton/relay/internal/consume"
	"github.com/backend-skeleton/relay/messaging"
	"github.com/backend-skeleton/relay/messaging/messagingtest"
	"github.com/backend-skeleton/relay/messaging/transport"
)

// C16, C39: what no handler can read passes the same decision as everything else: parked at the documented place, with its
// own code and its own bytes, after one delivery; the good ones around it are handled.
func TestC16_WhatIsNoMessageIsParked(t *testing.T) {
	t.Parallel()
	set := func(name, value string) func(*transport.Message) {
		return func(m *transport.Message) {
			m.Header = slices.DeleteFunc(m.Header, func(h transport.Header) bool { return h.Name == name })
			if value != "" {
				m.Header = append(m.Header, transport.Header{Name: name, Value: []byte(value)})
			}
		}
	}
	body := func(text string) func(*transport.Message) {
		return func(m *transport.Message) { m.Value = []byte(text) }
	}
	for what, row := range map[string]struct {
		change      func(*transport.Message)
		place, code string
	}{
		"no id":                 {set("msg.id", ""), "parked-schema", messaging.CodeForeignMessage},
		"an id of another kind": {set("msg.id", "8c1f1f0e-4a57-4d0e-9d51-2f2d4f2f9d3a"), "parked-schema", messaging.CodeForeignMessage},
		"no type":               {set("msg.type", ""), "parked-schema", messaging.CodeForeignMessage},
		"unknown type":          {set("msg.type", "order.unheard-of"), "parked-schema", messaging.CodeUnknownType},
		"version 99":            {set("msg.schema-version", "99"), "parked-schema", messaging.CodeSchemaVersionUnknown},
		"no producer":           {set("msg.producer", ""), "parked-schema", messaging.CodeInvalidHeader},
		"unknown content type":  {set("msg.content-type", "application/x-unheard-of"), "parked-schema", messaging.CodeUnsupportedContentType},
		"claim check":           {set("msg.claim-check", "{not json"), "parked-schema", messaging.CodeInvalidHeader},
		"claim check, no store": {set("msg.claim-check", `{"store":"s"}`), "dlq", messaging.CodeClaimCheckUnavailable},
		"schema reference":      {set("msg.schema-ref", "{not json"), "parked-schema", messaging.CodeInvalidHeader},
		"tenant":                {set("msg.tenant", "stranger"), "parked-security", messaging.CodeTenantNotAllowed},
		"empty":                 {body(""), "parked-schema", messaging.CodeMalformedPayload},
		"too large":             {body(strings.Repeat("9", 9<<10)), "parked-schema", messaging.CodeTooLarge},
		"a key twice":           {body(`{"n":1,"n":2}`), "parked-schema", messaging.CodeDuplicateKey},
		"trailing":              {body(`{"n":1}x`), "parked-schema", messaging.CodeMalformedPayload},
		"null value":            {func(m *transport.Message) { m.Value, m.NullValue = nil, true }, "parked-schema", messaging.CodeMalformedPayload},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, false, func(c *consume.Config) {
				c.Tenants, c.MaxBytes = messaging.NewTenants("acme"), 8<<10
			})
			w.put("", 0, 5)
			var bad transport.Message
			w.putOne("", 5, func(m *transport.Message) {
				row.change(m)
				m.Header = append(m.Header, transport.Header{Name: "x-native", Value: []byte{0xff, 0}})
				bad = *m
			})
			w.put("", 6, 5)
			w.start(w.handle(nil))
			w.settled()
			if n := len(w.made()); n != 10 {
				t.Errorf("%d good ones are handled, want 10", n)
			}
			got := w.Stored(row.place)
			if len(got) != 1 {
				t.Fatalf("%d messages at %s, want 1", len(got), row.place)
			}
			m := got[0]
			if header(m, transport.HeaderDLQCode) != row.code || string(m.Value) != string(bad.Value) || m.NullValue != bad.NullValue || header(m, "x-native") != "\xff\x00" {
				t.Errorf("code %s, want %s; the bytes differ: %t", header(m, transport.HeaderDLQCode), row.code, string(m.Value) != string(bad.Value))
			}
			if header(m, transport.HeaderDLQSource) != "order-events/order-projection" || header(m, transport.HeaderDLQAttempts) != "1" {
				t.Errorf("source %q, attempts %q", header(m, transport.HeaderDLQSource), header(m, transport.HeaderDLQAttempts))
			}
		})
	}
}

// A catalogue type without handler, and a copy that is meant for another consumer.
func TestWhatIsNotForThisConsumer(t *testing.T) {
	t.Parallel()
	for park, place := range map[bool]string{false: "", true: "parked-schema"} {
		w := newWorld(t, true, func(c *consume.Config) { c.ParkUnhandled = park })
		w.putOne("", 0, func(m *transport.Message) {
			for i, h := range m.Header {
				if h.Name == transport.HeaderType {
					m.Header[i].Value = []byte("order.gone")
				}
			}
		})
		w.putOne("", 1, func(m *transport.Message) {
			m.Header = append(m.Header, transport.Header{Name: transport.HeaderForConsumer, Value: []byte("somebody-else")})
		})
		w.start(w.handle(nil))
		w.settled()
		w.eventually("one is skipped", func() bool { return w.outcomes("SKIPPED") == 1 })
		if park && len(w.Stored(place)) != 1 || !park && w.outcomes("IGNORED") != 1 {
			t.Errorf("park %t: %d parked, %d ignored", park, len(w.Stored(place)), w.outcomes("IGNORED"))
		}
		if n := len(w.made()); n != 0 {
			t.Errorf("%d calls", n)
		}
	}
}

// Every mode: attempts count from 1, the waits are those of the policy, the id stays, and what is used up goes to the
// dead letters once.
func TestRetryModes(t *testing.T) {
	t.Parallel()
	for _, mode := range []messaging.Mode{
		messaging.ModeNone, messaging.ModeInline, messaging.ModeBlocking, messaging.ModePausePartition, messaging.ModeRetryDestination, messaging.ModeBrokerDelayed,
	} {
		for _, topic := range []bool{true, false} {
			if topic && mode == messaging.ModeBrokerDelayed {
				continue // the broker counts on queues alone
			}
			t.Run(mode.String(), func(t *testing.T) {
				t.Parallel()
				w := newWorld(t, topic, func(c *consume.Config) {
					c.Policy = messaging.RetryPolicy{Mode: mode, MaxAttempts: 3, InitialDelay: 20 * time.Millisecond, MaxDelay: 40 * time.Millisecond, Multiplier: 2}
					if mode == messaging.ModeNone {
						c.Policy.MaxAttempts = 1
					}
					for n := range consume.Stages(c.Policy) {
						c.Stages = append(c.Stages, stage(n+1))
					}
				})
				id := w.put("a", 0, 1)[0]
				w.start(w.handle(func(context.Context, call) messaging.Result { return transient() }))
				w.eventually("a dead letter", func() bool { return len(w.Stored("dlq")) == 1 })
				w.settled()
				calls, want := w.made(), []int{1, 2, 3}
				if mode == messaging.ModeNone {
					want = want[:1]
				}
				var attempts []int
				for i, c := range calls {
					attempts = append(attempts, c.attempt)
					if c.id != id {
						t.Error("the id changed on its way")
					}
					if i > 0 && c.at.Sub(calls[i-1].at) < time.Duration(20*i)*time.Millisecond {
						t.Errorf("attempt %d came after %v", c.attempt, c.at.Sub(calls[i-1].at))
					}
				}
				if !slices.Equal(attempts, want) {
					t.Errorf("attempts %v, want %v", attempts, want)
				}
				m := w.Stored("dlq")[0]
				if m.ID != id || header(m, transport.HeaderDLQAttempts) != map[bool]string{true: "1", false: "3"}[mode == messaging.ModeNone] {
					t.Errorf("dead letter says %s attempts", header(m, transport.HeaderDLQAttempts))
				}
				for _, left := range []string{transport.HeaderForConsumer, transport.HeaderRetryAttempt, transport.HeaderRetryDueAt} {
					if header(m, left) != "" {
						t.Errorf("the dead letter has %s", left)
					}
				}
			})
		}
	}
}

// Others overtake what waits in place, or on a stage; nobody overtakes where order is kept.
func TestWhoOvertakes(t *testing.T) {
	t.Parallel()
	for mode, overtaken := range map[messaging.Mode]bool{messaging.ModeInline: true, messaging.ModeRetryDestination: true, messaging.ModePausePartition: false, messaging.ModeBlocking: false} {
		w := newWorld(t, true, func(c *consume.Config) {
			c.Concurrency = 1
			c.Policy.Mode, c.Policy.InitialDelay, c.Policy.MaxDelay = mode, 50*time.Millisecond, 50*time.Millisecond
			for n := range consume.Stages(c.Policy) {
				c.Stages = append(c.Stages, stage(n+1))
			}
		})
		w.put("a", 0, 3)
		w.start(w.handle(func(_ context.Context, c call) messaging.Result {
			if c.n == 0 && c.attempt == 1 {
				return transient()
			}
			return messaging.Success()
		}))
		w.settled()
		w.eventually("all succeed", func() bool { return w.outcomes("SUCCESS") == 3 })
		calls := w.made()
		if got := calls[len(calls)-1].n == 0; got != overtaken {
			t.Errorf("%v: overtaken %t, want %t", mode, got, overtaken)
		}
	}
}

// C14: the source is settled when the broker has confirmed the dead letter and not before; the hand-over is repeated
// under the same id, the handler is not called again, the consumer says that it waits.
func TestC14_TheSourceIsSettledAfterTheHandOver(t *testing.T) {
	t.Parallel()
	for _, kind := range []messagingtest.FaultKind{messagingtest.Nack, messagingtest.Return, messagingtest.Cut} {
		w := newWorld(t, true, func(c *consume.Config) { c.Ordering = messaging.OrderingPartition })
		undo := w.Inject(messagingtest.Fault{Kind: kind, Destination: string(deadLetters.Name)})
		ids := w.put("a", 0, 3)
		w.start(w.handle(func(_ context.Context, c call) messaging.Result {
			if c.n == 0 {
				return permanent()
			}
			return messaging.Success()
		}))
		w.eventually("three hand-overs", func() bool {
			w.mu.Lock()
			defer w.mu.Unlock()
			return len(w.hands) >= 3
		})
		if s := w.k.Status(); s.Ready() || s.Paused["dlq-outage"] == nil || s.HandingOver != 1 {
			t.Errorf("%s: %+v", kind, s)
		}
		if n, calls := len(w.Left(w.place, name)), len(w.made()); n != 3 || calls != 1 {
			t.Errorf("%s: %d messages left, want 3; %d calls, want 1", kind, n, calls)
		}
		undo()
		w.settled()
		dead := w.Stored("dlq")
		if len(dead) != 1 || dead[0].ID != ids[0] {
			t.Errorf("%s: %d dead letters", kind, len(dead))
		}
		w.eventually("it works again", func() bool { s := w.k.Status(); return s.Ready() && len(s.Paused) == 0 })
	}
}

// A stop in the midst of a hand-over leaves the source unsettled.
func TestAStopLeavesAnUnconfirmedHandOver(t *testing.T) {
	t.Parallel()
	w := newWorld(t, true, nil)
	w.Inject(messagingtest.Fault{Kind: messagingtest.DropAck, Destination: string(deadLetters.Name)})
	w.put("", 0, 1)
	w.start(w.handle(func(context.Context, call) messaging.Result { return permanent() }))
	w.eventually("it is stored", func() bool { return len(w.Stored("dlq")) == 1 })
	if err := stop(t, w.k, 20*time.Millisecond); err == nil {
		t.Error("the stop does not tell of it")
	}
	if n := len(w.Left(w.place, name)); n != 1 {
		t.Errorf("%d messages left, want 1: nothing was confirmed", n)
	}
	if n := len(w.Stored("dlq")); n != 1 {
		t.Errorf("sent %d times while the first one was not answered", n)
	}
}

// C33: over repeated hops a dead letter does not grow, and tells where it came from first.
func TestC33_DeadLettersDoNotGrow(t *testing.T) {
	t.Parallel()
	w := newWorld(t, false, nil)
	w.put("", 0, 1)
	w.start(w.handle(func(context.Context, call) messaging.Result { return permanent() }))
	var first transport.Message
	for hop := range 5 {
		w.eventually("a dead letter", func() bool { return len(w.Stored("dlq")) == hop+1 })
		m := w.Stored("dlq")[hop]
		if hop == 0 {
			first = m
		}
		if len(m.Header) != len(first.Header) || m.ID != first.ID {
			t.Fatalf("hop %d: %d headers, the first had %d", hop, len(m.Header), len(first.Header))
		}
		for _, h := range []string{transport.HeaderDLQSource, transport.HeaderDLQPosition, transport.HeaderFirstFailureAt} {
			if header(m, h) != header(first, h) || header(m, h) == "" {
				t.Errorf("hop %d: %s is %q, was %q", hop, h, header(m, h), header(first, h))
			}
		}
		w.Put("orders", m)
	}
}

// BLOCK: what is used up waits for an operator, and so does what comes behind it; readiness names it.
func TestExhaustedAndBlocked(t *testing.T) {
	t.Parallel()
	w := newWorld(t, true, func(c *consume.Config) { c.Ordering, c.Block = messaging.OrderingPartition, true })
	w.put("a", 0, 2)
	var repaired atomic.Bool
	w.start(w.handle(func(context.Context, call) messaging.Result {
		if repaired.Load() {
			return messaging.Success()
		}
		return transient()
	}))
	w.eventually("it is blocked", func() bool { return w.k.Status().Paused["exhausted"] != nil })
	if n := len(w.made()); n != 3 || w.k.Status().Ready() {
		t.Errorf("%d calls, want 3; ready %t", n, w.k.Status().Ready())
	}
	repaired.Store(true)
	if err := w.k.Resume("exhausted"); err != nil {
		t.Fatal(err)
	}
	w.settled()
	if len(w.Stored("dlq")) != 0 || !w.k.Status().Ready() {
		t.Error("it is not healed")
	}
}

// Without a place for it a message waits for somebody: it is never dropped.
func TestNoPlaceIsNoReasonToDrop(t *testing.T) {
	t.Parallel()
	w := newWorld(t, true, func(c *consume.Config) { c.DeadLetters, c.Parking = nil, nil })
	w.put("", 0, 1)
	w.start(w.handle(func(context.Context, call) messaging.Result { return permanent() }))
	w.eventually("it waits", func() bool { return w.k.Status().Paused["no-place"] != nil })
	if n := len(w.Left(w.place, name)); n != 1 {
		t.Errorf("%d messages left, want 1", n)
	}
}

// outage is a codec whose registry is away.
type outage struct {
	messaging.Codec
	away  atomic.Bool
	asked atomic.Int32
}

func (o *outage) Decode(ctx context.Context, t messaging.MessageType, v messaging.SchemaVersion, ref *messaging.SchemaReference, data []byte, into any) error {
	if o.asked.Add(1); o.away.Load() {
		return messaging.NewFailure(messaging.CategoryTransientInfrastructure, "REGISTRY_UNREACHABLE", "the registry does not answer")
	}
	return o.Codec.Decode(ctx, t, v, ref, data, into)
}

// C17: an outage of what the runtime needs before the handler is waited for: no attempt, nothing parked or settled.
func TestC17_AnOutageBeforeTheHandlerIsWaitedFor(t *testing.T) {
	t.Parallel()
	registry := &outage{}
	w := newWorld(t, true, func(c *consume.Config) {
		c.Ordering = messaging.OrderingPartition
		registry.Codec = c.Codecs[0]
		c.Codecs = []messaging.Codec{registry}
	})
	registry.away.Store(true)
	w.put("a", 0, 3)
	w.start(w.handle(nil))
	w.eventually("readiness names it", func() bool { s := w.k.Status(); return s.Paused["outage"] != nil && !s.Ready() })
	w.eventually("it is asked again", func() bool { return registry.asked.Load() >= 2 })
	if len(w.Left(w.place, name)) != 3 || len(w.Stored("parked-schema"))+len(w.Stored("dlq")) != 0 {
		t.Error("something was settled or parked")
	}
	registry.away.Store(false)
	w.settled()
	for _, c := range w.made() {
		if c.attempt != 1 {
			t.Errorf("attempt %d after an outage", c.attempt)
		}
	}
	w.eventually("it is ready", func() bool { return w.k.Status().Ready() })
}
