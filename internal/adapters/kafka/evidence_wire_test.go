package kafka

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/backend-skeleton/relay/internal/brokertest"
	"github.com/backend-skeleton/relay/messaging"
	"github.com/backend-skeleton/relay/messaging/transport"
)

// swift is an endpoint under which doubt ends within a second.
func swift(topic string) transport.Endpoint {
	return endpoint(topic, "timeout", 300*time.Millisecond, "request-timeout", 150*time.Millisecond,
		"delivery-timeout", 800*time.Millisecond, "abandon-after", 5*time.Second)
}

// settling is an endpoint under which an unanswered write is soon repeated and doubt
// lasts long enough to be settled on a busy machine.
func settling(topic string) transport.Endpoint {
	return endpoint(topic, "request-timeout", 300*time.Millisecond, "delivery-timeout", 30*time.Second)
}

func quick(c *Config) { c.AnswerGrace = 150 * time.Millisecond }

// TestEvidence_Wire holds each fault of the wire against what the adapter says and
// against what the broker has: once, where the retry under the same sequence settles
// it, and for ever, where only the truth about the first write counts.
func TestEvidence_Wire(t *testing.T) {
	t.Parallel()
	const (
		neverLeft = "REJECTED TRANSIENT_INFRASTRUCTURE NOT_SENT NOT_TRANSMITTED NOT_APPLICABLE"
		lost      = "AMBIGUOUS AMBIGUOUS CONNECTION_LOST MAY_HAVE_BEEN_TRANSMITTED UNKNOWN"
		silent    = "AMBIGUOUS AMBIGUOUS CONFIRM_TIMEOUT MAY_HAVE_BEEN_TRANSMITTED UNKNOWN"
	)
	for _, c := range []struct {
		name   string
		fault  fault
		always string // verdict where it happens to every write
		stored int    // copies of each message then
	}{
		{"NeverWritten", faultUnsent, neverLeft, 0},
		{"CutBeforeTheAppend", faultHalf, lost, 0},
		{"StoredAndAnswerLost", faultUnread, lost, 1},
		{"BrokerMute", faultMute, silent, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			t.Run("once", func(t *testing.T) {
				onBoth(t, func(t *testing.T, cl cluster) {
					topic, w := cl.topic(t, 1), newWire()
					_, p := cl.adapter(t, w.use, quick)
					w.next(c.fault)
					rs := publish(t, p, settling(topic), 20*time.Second, numbered("k", "m", 10, 0)...)
					expectAll(t, rs, confirmedVerdict)
					want := []string{"m0", "m1", "m2", "m3", "m4", "m5", "m6", "m7", "m8", "m9"}
					if got := values(cl.stored(t, topic)); !slices.Equal(got, want) {
						t.Errorf("stored %v, want %v", got, want)
					}
					if c.fault != faultUnsent && rs[0].Attempts < 2 {
						t.Errorf("%d attempts: the fault did not take place", rs[0].Attempts)
					}
				})
			})
			t.Run("always", func(t *testing.T) {
				onBoth(t, func(t *testing.T, cl cluster) {
					topic, w := cl.topic(t, 1), newWire()
					_, p := cl.adapter(t, w.use, quick)
					expectAll(t, publish(t, p, endpoint(topic), 20*time.Second, message("k", "before")), confirmedVerdict)
					w.set(c.fault)
					rs := publish(t, p, swift(topic), 20*time.Second, numbered("k", "m", 3, 0)...)
					expectAll(t, rs, c.always)
					if got := len(cl.stored(t, topic)) - 1; got != 3*c.stored {
						t.Errorf("%d records stored, want %d", got, 3*c.stored)
					}
					// The adapter is not dead: what comes next is published.
					w.set(faultNone)
					expectAll(t, publish(t, p, endpoint(topic), 20*time.Second, message("k", "after")), confirmedVerdict)
				})
			})
		})
	}
}

// TestEvidence_NothingListens: no connection, nothing written, told before the
// caller's time is over.
func TestEvidence_NothingListens(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, c cluster) {
		topic, w := c.topic(t, 1), newWire()
		_, p := c.adapter(t, w.use)
		w.down.Store(true)
		want := "REJECTED TRANSIENT_INFRASTRUCTURE BROKER_UNREACHABLE NOT_TRANSMITTED NOT_APPLICABLE"
		rs := publish(t, p, endpoint(topic), 2*time.Second, message("k", "1"), message("", "2"))
		expectAll(t, rs, want)
		if rs[0].Elapsed >= 2*time.Second {
			t.Errorf("told after %s, when the caller's time was over", rs[0].Elapsed)
		}
		w.down.Store(false)
		brokertest.Eventually(t, 20*time.Second, "the adapter finds the broker by itself", func() bool {
			return publish(t, p, endpoint(topic), time.Second, message("k", "3"))[0].Completion == messaging.Confirmed
		})
		if got := values(c.stored(t, topic)); !slices.Equal(got, []string{"3"}) {
			t.Errorf("stored %v", got)
		}
	})
}

// TestEvidence_LateAnswer: the answer that comes after the caller's time is still
// reported, once, as what it is.
func TestEvidence_LateAnswer(t *testing.T) {
	t.Parallel()
	onVersions(t, func(t *testing.T, c cluster) {
		topic, w := c.topic(t, 1), newWire()
		_, p := c.adapter(t, w.use, quick)
		w.next(faultMute)
		r := newResults(t, 1)
		ctx, cancel := contextFor(10 * time.Second)
		defer cancel()
		p.Publish(ctx, settling(topic), []transport.Message{message("k", "1")}, r.done)
		<-w.hit
		cancel()
		select {
		case <-r.all:
			t.Error("told before the broker answered")
		default:
		}
		expectAll(t, r.wait(20*time.Second), confirmedVerdict)
		if n := len(c.stored(t, topic)); n != 1 {
			t.Errorf("%d records, want 1", n)
		}
	})
}

// TestEvidence_AbandonedBatchIsFenced: a batch that was given up, and later messages
// of the key published, is refused when it arrives after all: it does not come up
// behind them.
func TestEvidence_AbandonedBatchIsFenced(t *testing.T) {
	t.Parallel()
	onVersions(t, func(t *testing.T, c cluster) {
		topic, w := c.topic(t, 1), newWire()
		_, p := c.adapter(t, w.use, quick)
		expectAll(t, publish(t, p, endpoint(topic), 20*time.Second, message("k", "0")), confirmedVerdict)
		w.set(faultHeld)
		expectAll(t, publish(t, p, swift(topic), 20*time.Second, message("k", "1")), "AMBIGUOUS AMBIGUOUS CONFIRM_TIMEOUT MAY_HAVE_BEEN_TRANSMITTED UNKNOWN")
		w.set(faultNone)
		expectAll(t, publish(t, p, endpoint(topic), 20*time.Second, message("k", "1"), message("k", "2")), confirmedVerdict)
		if err := w.release(); err != nil {
			t.Fatalf("deliver what was held: %v", err)
		}
		if got := values(c.stored(t, topic)); !slices.Equal(got, []string{"0", "1", "2"}) {
			t.Errorf("stored %v, want 0 1 2: the old batch came up behind the new one", got)
		}
	})
}

// TestEvidence_NotSentBehindAStuckBatch: what waits behind a batch in doubt is not
// sent, and says so in time.
func TestEvidence_NotSentBehindAStuckBatch(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, c cluster) {
		topic, w := c.topic(t, 1), newWire()
		_, p := c.adapter(t, w.use, quick)
		w.next(faultMute)
		first := newResults(t, 1)
		e := settling(topic)
		p.Publish(t.Context(), e, numbered("a", "a", 1, 0), first.done)
		<-w.hit
		rs := publish(t, p, e, 300*time.Millisecond, message("b", "b0"), message("b", "b1"))
		expectAll(t, rs, "REJECTED TRANSIENT_INFRASTRUCTURE NOT_SENT NOT_TRANSMITTED NOT_APPLICABLE")
		expectAll(t, first.wait(10*time.Second), confirmedVerdict)
		if got := values(c.stored(t, topic)); !slices.Equal(got, []string{"a0"}) {
			t.Errorf("stored %v", got)
		}
	})
}

// TestEvidence_Closed: closing resolves everything: what may be stored as ambiguous,
// what was not begun as closed.
func TestEvidence_Closed(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, c cluster) {
		topic, w := c.topic(t, 1), newWire()
		_, p := c.adapter(t, w.use)
		w.next(faultMute)
		first, second := newResults(t, 1), newResults(t, 1)
		p.Publish(t.Context(), endpoint(topic), numbered("a", "a", 1, 0), first.done)
		<-w.hit
		p.Publish(t.Context(), endpoint(topic), numbered("b", "b", 1, 0), second.done)
		ctx, cancel := contextFor(100 * time.Millisecond)
		defer cancel()
		if err := p.Close(ctx); err == nil {
			t.Error("closed in time, with a message unresolved")
		}
		expectAll(t, first.wait(time.Second), "AMBIGUOUS AMBIGUOUS CONFIRM_TIMEOUT MAY_HAVE_BEEN_TRANSMITTED UNKNOWN")
		const closed = "REJECTED TRANSIENT_INFRASTRUCTURE CLOSED NOT_TRANSMITTED NOT_APPLICABLE"
		expectAll(t, second.wait(time.Second), closed)
		expectAll(t, publish(t, p, endpoint(topic), time.Second, message("k", "x")), closed)
	})
}

// TestCloseWaitsForAnswers: with time enough, closing waits.
func TestCloseWaitsForAnswers(t *testing.T) {
	t.Parallel()
	c := fakeCluster(t)
	topic, w := c.topic(t, 1), newWire()
	_, p := c.adapter(t, w.use, quick)
	w.next(faultMute)
	r := newResults(t, 1)
	p.Publish(t.Context(), endpoint(topic, "request-timeout", 200*time.Millisecond), numbered("a", "a", 1, 0), r.done)
	ctx, cancel := contextFor(10 * time.Second)
	defer cancel()
	if err := p.Close(ctx); err != nil {
		t.Fatal(err)
	}
	expectAll(t, r.wait(time.Second), confirmedVerdict)
}

// TestEvidence_Backpressure: what the in-flight limit keeps out was not sent.
func TestEvidence_Backpressure(t *testing.T) {
	t.Parallel()
	c := fakeCluster(t)
	topic, w := c.topic(t, 1), newWire()
	_, p := c.adapter(t, w.use, quick, func(c *Config) { c.ProducerInFlight = 2 })
	w.next(faultMute)
	e := settling(topic)
	first := newResults(t, 2)
	p.Publish(t.Context(), e, numbered("a", "a", 2, 0), first.done)
	<-w.hit
	started := time.Now()
	rs := publish(t, p, e, 300*time.Millisecond, message("b", "b0"))
	if d := time.Since(started); d > 2*time.Second {
		t.Errorf("Publish blocked for %s with a context of 300 ms", d)
	}
	expectAll(t, rs, "REJECTED THROTTLED BACKPRESSURE NOT_TRANSMITTED NOT_APPLICABLE")
	expectAll(t, first.wait(10*time.Second), confirmedVerdict)
	expectAll(t, publish(t, p, e, 20*time.Second, numbered("a", "a", 7, 0)...), confirmedVerdict)
}

// TestEvidence_TimeOverBefore: a context that is over when Publish begins.
func TestEvidence_TimeOverBefore(t *testing.T) {
	t.Parallel()
	c := fakeCluster(t)
	topic, w := c.topic(t, 1), newWire()
	_, p := c.adapter(t, w.use)
	expectAll(t, publish(t, p, endpoint(topic), 20*time.Second, message("k", "0")), confirmedVerdict)
	before := w.count()
	for name, over := range map[string]func() (context.Context, context.CancelFunc){
		"cancelled": func() (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			return ctx, cancel
		},
		"too late": func() (context.Context, context.CancelFunc) { return contextFor(-time.Second) },
	} {
		ctx, cancel := over()
		r := newResults(t, 3)
		p.Publish(ctx, endpoint(topic), numbered("k", name, 3, 0), r.done)
		expectAll(t, r.wait(time.Second), "REJECTED TRANSIENT_INFRASTRUCTURE NOT_SENT NOT_TRANSMITTED NOT_APPLICABLE")
		cancel()
	}
	if w.count() != before {
		t.Error("something was written")
	}
}
