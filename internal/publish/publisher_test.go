package publish_test

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/backend-skeleton/relay/internal/publish"
	"github.com/backend-skeleton/relay/messaging"
	"github.com/backend-skeleton/relay/messaging/transport"
)

func TestPublishTakesTheWholeWay(t *testing.T) {
	t.Parallel()
	b := newBench(t, &edge{}, 0)
	e := event("order-1")
	e.PartitionKey = "eu"
	r, err := publisherOf(t, b).Publish(t.Context(), e, nil)
	if err != nil || r.Completion != messaging.Confirmed || r.Evidence.Level != messaging.LevelReplicationOrPersistenceAck {
		t.Fatalf("%+v, %v", r, err)
	}
	m := b.edge.sent()[0]
	f, err := transport.DecodeHeaders(m.Header)
	if err != nil || m.ID != e.ID || f.ID != e.ID || f.Producer != "orders" || f.ContentType != "application/json" || f.ProducedAt.IsZero() {
		t.Errorf("wire %+v, %v", f, err)
	}
	if string(m.Key) != "order-1" || m.NullKey || string(m.Value) != `{"id":"1"}` || m.NullValue {
		t.Errorf("key %q, value %s", m.Key, m.Value)
	}
	if got := b.stages(); len(got) != 1 || got[0] != publish.BrokerAccepted {
		t.Errorf("stages %v", got)
	}
	if n := b.Broker.InFlight(); n != 0 {
		t.Errorf("%d places are still taken", n)
	}
}

// The verdicts of a broker, and what a caller can ask the error.
func TestVerdicts(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		answer messaging.PublishResult
		is     []error
		isNot  []error
		stage  publish.State
	}{
		"refused":                  {*refused(messaging.Rejected, messaging.CategoryAuthorization, messaging.CodeNotAuthorized), []error{messaging.ErrPublishRejected, messaging.ErrAuthorization}, []error{messaging.ErrPublishAmbiguous}, publish.Transmitting},
		"cut":                      {*refused(messaging.Ambiguous, messaging.CategoryAmbiguous, messaging.CodeConnectionLost), []error{messaging.ErrPublishAmbiguous, messaging.ErrBrokerUnavailable}, []error{messaging.ErrPublishRejected}, publish.Transmitting},
		"no verdict":               {messaging.PublishResult{}, []error{messaging.ErrPublishAmbiguous}, []error{messaging.ErrPublishRejected}, publish.Transmitting},
		"confirmed and unroutable": {messaging.PublishResult{Completion: messaging.Confirmed, Routing: messaging.RoutingUnroutable}, []error{messaging.ErrPublishRejected, messaging.ErrRouting}, []error{messaging.ErrPublishAmbiguous}, publish.Transmitting},
	} {
		b := newBench(t, &edge{answer: func(transport.Message) *messaging.PublishResult { return &c.answer }}, 0)
		r, err := publisherOf(t, b).Publish(t.Context(), event(""), nil)
		for _, kind := range c.is {
			if !errors.Is(err, kind) {
				t.Errorf("%s: %v is not %v", name, err, kind)
			}
		}
		for _, kind := range c.isNot {
			if errors.Is(err, kind) {
				t.Errorf("%s: %v is %v", name, err, kind)
			}
		}
		if r.Failure == nil || b.stages()[0] != c.stage {
			t.Errorf("%s: %+v, stage %v", name, r, b.stages())
		}
	}
}

// A stored message is never called rejected; nothing more is sent until the broker proves the level again.
func TestAWeakConfirmationStopsTheDestination(t *testing.T) {
	t.Parallel()
	weak := confirmed()
	weak.Evidence.Level = messaging.LevelBrokerAck
	b := newBench(t, &edge{answer: func(transport.Message) *messaging.PublishResult { return &weak }}, 0)
	p := publisherOf(t, b)
	r, err := p.Publish(t.Context(), event(""), nil)
	if r.Completion != messaging.Confirmed || !errors.Is(err, messaging.ErrConfiguration) || errors.Is(err, messaging.ErrPublishRejected) || errors.Is(err, messaging.ErrPublishAmbiguous) {
		t.Errorf("%+v, %v", r, err)
	}
	if r, err = p.Publish(t.Context(), event(""), nil); codeOf(err) != messaging.CodeProofLost || r.Evidence.Transmission != messaging.NotTransmitted || !b.Weak() {
		t.Errorf("%+v, %v", r, err)
	}
	b.Proved()
	if r, _ = p.Publish(t.Context(), event(""), nil); r.Completion != messaging.Confirmed || len(b.edge.sent()) != 2 {
		t.Errorf("%+v, %d sent", r, len(b.edge.sent()))
	}
}

// What is refused locally never left, says why, and quotes nothing.
func TestLocalRefusals(t *testing.T) {
	t.Parallel()
	const secret = "s3cret"
	over, cancel := context.WithCancel(t.Context())
	cancel()
	type change func(*bench, *messaging.Envelope[order], *messaging.PublishOptions)
	for name, c := range map[string]struct {
		ctx    context.Context
		change change
		kind   error
		code   string
		stage  publish.State
	}{
		"type of another destination": {t.Context(), func(_ *bench, e *messaging.Envelope[order], _ *messaging.PublishOptions) { e.Type = "order.paid" }, messaging.ErrValidation, messaging.CodeInvalidMessage, publish.Created},
		"key too long": {t.Context(), func(_ *bench, e *messaging.Envelope[order], _ *messaging.PublishOptions) {
			e.OrderingKey = strings.Repeat(secret, 100)
		}, messaging.ErrValidation, messaging.CodeInvalidMessage, publish.Created},
		"no key": {t.Context(), func(b *bench, _ *messaging.Envelope[order], _ *messaging.PublishOptions) {
			b.Rules.Profile.KeyRequired = true
		}, messaging.ErrValidation, messaging.CodeInvalidMessage, publish.Created},
		"tenant": {t.Context(), func(b *bench, e *messaging.Envelope[order], _ *messaging.PublishOptions) {
			b.Rules.Profile.Tenants, e.Tenant = messaging.NewTenants("acme"), secret
		}, messaging.ErrValidation, messaging.CodeTenantNotAllowed, publish.Created},
		"no such codec": {t.Context(), func(_ *bench, e *messaging.Envelope[order], _ *messaging.PublishOptions) { e.ContentType = secret }, messaging.ErrValidation, messaging.CodeInvalidMessage, publish.Validated},
		"raw codec": {t.Context(), func(_ *bench, e *messaging.Envelope[order], _ *messaging.PublishOptions) {
			e.ContentType = "application/octet-stream"
		}, messaging.ErrSerialization, messaging.CodeSerialization, publish.Validated},
		"too large": {t.Context(), func(b *bench, e *messaging.Envelope[order], _ *messaging.PublishOptions) {
			b.Rules.Profile.MaxBytes, e.Payload.ID = 20, strings.Repeat(secret, 5)
		}, messaging.ErrTooLarge, messaging.CodeTooLarge, publish.Validated},
		"context over":     {over, func(*bench, *messaging.Envelope[order], *messaging.PublishOptions) {}, context.Canceled, messaging.CodeNotSent, publish.Created},
		"timeout negative": {t.Context(), func(_ *bench, _ *messaging.Envelope[order], o *messaging.PublishOptions) { o.Timeout = -1 }, messaging.ErrValidation, messaging.CodeInvalidMessage, publish.Created},
		"stronger than provable": {t.Context(), func(b *bench, _ *messaging.Envelope[order], o *messaging.PublishOptions) {
			b.Required, o.Confirmation = messaging.LevelBrokerAck, messaging.LevelReplicationOrPersistenceAck
		}, messaging.ErrCapabilityUnavailable, messaging.CodeCapabilityUnavailable, publish.Created},
		"no deduplication":   {t.Context(), func(_ *bench, _ *messaging.Envelope[order], o *messaging.PublishOptions) { o.Deduplicate = true }, messaging.ErrCapabilityUnavailable, messaging.CodeCapabilityUnavailable, publish.Created},
		"hint without grant": {t.Context(), func(_ *bench, _ *messaging.Envelope[order], o *messaging.PublishOptions) { o.Hint = hint{} }, messaging.ErrCapabilityUnavailable, messaging.CodeCapabilityUnavailable, publish.Created},
		"hint that is not known": {t.Context(), func(b *bench, _ *messaging.Envelope[order], o *messaging.PublishOptions) {
			o.Hint, b.Granted = hint{}, all
		}, messaging.ErrCapabilityUnavailable, messaging.CodeCapabilityUnavailable, publish.Validated},
		"closed": {t.Context(), func(b *bench, _ *messaging.Envelope[order], _ *messaging.PublishOptions) {
			_ = b.Broker.Close(context.Background())
		}, messaging.ErrClosed, messaging.CodeClosed, publish.Created},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, &edge{}, 0)
			e, o := event(""), &messaging.PublishOptions{}
			c.change(b, &e, o)
			r, err := publisherOf(t, b).Publish(c.ctx, e, o)
			if !errors.Is(err, c.kind) || !errors.Is(err, messaging.ErrPublishRejected) || codeOf(err) != c.code {
				t.Errorf("%v, code %s", err, codeOf(err))
			}
			if r.Completion != messaging.Rejected || r.Evidence.Transmission != messaging.NotTransmitted || len(b.edge.sent()) != 0 {
				t.Errorf("%+v", r)
			}
			if got := b.stages(); len(got) != 1 || got[0] != c.stage {
				t.Errorf("stages %v", got)
			}
			if strings.Contains(err.Error(), secret) {
				t.Errorf("the error quotes a value: %v", err)
			}
		})
	}
}

type hint struct{}

func (hint) BrokerKind() string { return "kafka" }

func all(string) bool { return true }

// A context that ends before transmission gives REJECTED, after it AMBIGUOUS, and the context's error stays visible.
func TestCancellingNeverHidesAPossibleSend(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		hold := &edge{answer: func(transport.Message) *messaging.PublishResult { return nil }}
		b := newBench(t, hold, 0)
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		r, err := publisherOf(t, b).Publish(ctx, event(""), nil)
		if r.Completion != messaging.Ambiguous || !errors.Is(err, messaging.ErrPublishAmbiguous) || !errors.Is(err, context.Canceled) {
			t.Errorf("%+v, %v", r, err)
		}
		synctest.Wait()
		if seen := hold.ctxs[0]; seen.Err() == nil {
			t.Error("the adapter was not told that the call ended")
		}
		// The broker's answer comes late: it is reported, and only now the place is free.
		if b.Broker.InFlight() != 1 {
			t.Errorf("%d in flight", b.Broker.InFlight())
		}
		hold.release(0, confirmed())
		if b.Broker.InFlight() != 0 || len(b.late) != 1 || b.late[0].Result.Completion != messaging.Confirmed {
			t.Errorf("%d in flight, late %+v", b.Broker.InFlight(), b.late)
		}
	})
}

// late is an adapter that gives up when its time ends, and says then that nothing was sent.
type late struct{ edge }

func (l *late) Publish(ctx context.Context, _ transport.Endpoint, ms []transport.Message, done func(int, messaging.PublishResult)) {
	<-ctx.Done()
	for i := range ms {
		done(i, *refused(messaging.Rejected, messaging.CategoryTransientInfrastructure, messaging.CodeNotSent))
	}
}

// The adapter hears that its time is over, and what it says within the grace is the verdict.
func TestTheAdapterHearsTheDeadline(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, &edge{}, 0)
		b.Broker = publish.NewBroker("kafka", &late{}, 0, publish.Hooks{})
		start := time.Now()
		r, err := publisherOf(t, b).Publish(t.Context(), event(""), &messaging.PublishOptions{Timeout: time.Second})
		if r.Completion != messaging.Rejected || codeOf(err) != messaging.CodeNotSent || time.Since(start) != time.Second {
			t.Errorf("%+v, %v after %v", r, err, time.Since(start))
		}
	})
}

// A call may ask for more than the profile, never for less.
func TestACallMayAskForAStrongerConfirmation(t *testing.T) {
	t.Parallel()
	weak := confirmed()
	weak.Evidence.Level = messaging.LevelBrokerAck
	b := newBench(t, &edge{answer: func(transport.Message) *messaging.PublishResult { return &weak }}, 0)
	b.Able = func() (messaging.Capabilities, bool) {
		return messaging.Capabilities{ReplicationOrPersistenceEvidence: true}, true
	}
	b.Required = messaging.LevelBrokerAck
	p := publisherOf(t, b)
	if _, err := p.Publish(t.Context(), event(""), nil); err != nil {
		t.Errorf("as the profile asks: %v", err)
	}
	o := &messaging.PublishOptions{Confirmation: messaging.LevelReplicationOrPersistenceAck}
	if r, err := p.Publish(t.Context(), event(""), o); r.Completion != messaging.Confirmed || !errors.Is(err, messaging.ErrConfiguration) {
		t.Errorf("stronger: %+v, %v", r, err)
	}
	if b.Weak() {
		t.Error("the profile's level was kept, and the destination stopped")
	}
	b.Required = messaging.LevelReplicationOrPersistenceAck
	o.Confirmation = messaging.LevelNone
	if _, err := p.Publish(t.Context(), event(""), o); !errors.Is(err, messaging.ErrConfiguration) {
		t.Errorf("weaker than the profile: %v", err)
	}
}

func TestAFullBufferWaitsABoundedTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		hold := &edge{answer: func(transport.Message) *messaging.PublishResult { return nil }}
		b := newBench(t, hold, 2)
		p := publisherOf(t, b)
		done := make(chan error, 2)
		for range 2 {
			p.PublishAsync(t.Context(), event(""), &messaging.PublishOptions{Timeout: time.Hour / 10}, func(_ messaging.PublishResult, err error) { done <- err })
		}
		start := time.Now()
		r, err := p.Publish(t.Context(), event(""), &messaging.PublishOptions{Timeout: 3 * time.Second})
		if !errors.Is(err, messaging.ErrBackpressure) || codeOf(err) != messaging.CodeBackpressure || r.Evidence.Transmission != messaging.NotTransmitted {
			t.Errorf("%+v, %v", r, err)
		}
		if waited := time.Since(start); waited != 3*time.Second {
			t.Errorf("waited %v", waited)
		}
		synctest.Wait()
		hold.release(0, confirmed())
		hold.release(1, confirmed())
		for range 2 {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
	})
}

func TestPublishAsyncAnswersOnceFromElsewhere(t *testing.T) {
	t.Parallel()
	b := newBench(t, &edge{}, 0)
	p := publisherOf(t, b)
	over, cancel := context.WithCancel(t.Context())
	cancel()
	for name, ctx := range map[string]context.Context{"sent": t.Context(), "refused at once": over} {
		answers := make(chan error)
		p.PublishAsync(ctx, event(""), nil, func(_ messaging.PublishResult, err error) { answers <- err }) // would hang on the caller's stack
		if err := <-answers; (err != nil) != (ctx == over) {
			t.Errorf("%s: %v", name, err)
		}
	}
	_ = b.Broker.Close(t.Context())
	answers := make(chan error)
	p.PublishAsync(t.Context(), event(""), nil, func(_ messaging.PublishResult, err error) { answers <- err })
	if err := <-answers; !errors.Is(err, messaging.ErrClosed) {
		t.Errorf("after the close: %v", err)
	}
}

// An adapter that answers twice, or for a message that there is not, frees no place of others and changes no verdict.
func TestTheFirstAnswerCounts(t *testing.T) {
	t.Parallel()
	hold := &edge{answer: func(transport.Message) *messaging.PublishResult { return nil }}
	b := newBench(t, hold, 2)
	p := publisherOf(t, b)
	verdicts := make(chan error, 2)
	for range 2 {
		p.PublishAsync(t.Context(), event(""), &messaging.PublishOptions{Timeout: time.Minute}, func(_ messaging.PublishResult, err error) { verdicts <- err })
	}
	for held := 0; held < 2; {
		hold.mu.Lock()
		held = len(hold.open)
		hold.mu.Unlock()
		runtime.Gosched()
	}
	hold.release(0, *refused(messaging.Rejected, messaging.CategoryAuthorization, messaging.CodeNotAuthorized))
	hold.release(0, confirmed())
	hold.release(0, confirmed())
	if err := <-verdicts; !errors.Is(err, messaging.ErrAuthorization) {
		t.Errorf("%v", err)
	}
	if n := b.Broker.InFlight(); n != 1 {
		t.Errorf("%d in flight", n)
	}
	hold.release(1, confirmed())
	if err := <-verdicts; err != nil || b.Broker.InFlight() != 0 || len(b.late) != 0 {
		t.Errorf("%v, %d in flight, late %v", err, b.Broker.InFlight(), b.late)
	}
}

func TestDrainAdmitsWhatHandlersPublish(t *testing.T) {
	t.Parallel()
	b := newBench(t, &edge{}, 0)
	p := publisherOf(t, b)
	b.Broker.Drain()
	if _, err := p.Publish(t.Context(), event(""), nil); !errors.Is(err, messaging.ErrClosed) {
		t.Errorf("from outside: %v", err)
	}
	if _, err := p.Publish(publish.Handling(t.Context()), event(""), nil); err != nil {
		t.Errorf("from a handler: %v", err)
	}
	if err := b.Broker.Close(t.Context()); err != nil || !b.edge.ended {
		t.Errorf("close: %v", err)
	}
	if _, err := p.Publish(publish.Handling(t.Context()), event(""), nil); !errors.Is(err, messaging.ErrClosed) {
		t.Errorf("from a handler after the close: %v", err)
	}
}
