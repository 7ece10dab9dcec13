package rabbitmq

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/backend-skeleton/relay/internal/brokertest"
	"github.com/backend-skeleton/relay/messaging"
	"github.com/backend-skeleton/relay/messaging/transport"
)

// Outages of the whole broker, on one of the test's own.
func TestEvidence_BrokerOutages(t *testing.T) {
	t.Parallel()
	server := brokertest.StartRabbitMQ(t, brokertest.RabbitOptions{})
	host := func(t *testing.T) *brokertest.Vhost {
		v := brokertest.NewVhostOn(t, server.Env("RABBITMQ_URL_1"), server.Env("RABBITMQ_API_1"))
		v.Exchange(t, "e", "direct")
		v.Queue(t, "q", nil)
		v.Bind(t, "e", "q", "k")
		return v
	}
	t.Run("B16_MemoryAlarm", func(t *testing.T) { memoryAlarm(t, server, host(t)) })
	t.Run("B17_Restart", func(t *testing.T) { restart(t, server, host(t)) })
	t.Run("B10_Paused", func(t *testing.T) { paused(t, server, host(t)) })
	t.Run("Killed", func(t *testing.T) {
		brokertest.FullTier(t)
		killed(t, server, host(t))
	})
}

// B16: a blocked connection is a state that shows; nothing is sent while it
// lasts, and stopping still works.
func memoryAlarm(t *testing.T, server *brokertest.Server, v *brokertest.Vhost) {
	got := brokertest.CaptureRabbit(t, v.URL(), "q")
	a, p := open(t, configFor(t, v), to("e", "k"))
	other, otherP := open(t, configFor(t, v), to("e", "k"))
	for _, one := range []*Publisher{p, otherP} { // both channels of each are open
		wantConfirmed(t, publish(t, one, to("e", "k"), message("", "{}"), message("", "{}"))...)
	}
	server.Ctl(1, "set_vm_memory_high_watermark", "0.0000001")
	lifted := false
	lift := func() {
		if !lifted {
			lifted = true
			server.Ctl(1, "set_vm_memory_high_watermark", "0.6")
		}
	}
	defer lift()

	// The broker says so at the next publish, which it takes and answers later.
	caught, alsoCaught := message("", "{}"), message("", "{}")
	late := brief(t, p, patience, to("e", "k"), caught)
	otherLate := brief(t, otherP, patience, to("e", "k"), alsoCaught)
	brokertest.Eventually(t, patience, "the connection is blocked", func() bool { return a.Blocked() && other.Blocked() })
	if _, err := a.Inspect(t.Context(), []transport.Endpoint{to("e", "k")}); !errors.Is(err, messaging.ErrBackpressure) {
		t.Errorf("the probe says %v", err)
	}
	waiting := messages(20, noKey)
	for _, r := range brief(t, p, 500*time.Millisecond, to("e", "k"), waiting...).wait(patience) {
		if r.Evidence.Transmission != messaging.NotTransmitted || r.Completion != messaging.Rejected {
			t.Errorf("%v %v while blocked", r.Completion, r.Failure)
		}
	}
	r := brief(t, p, 200*time.Millisecond, to("e", "k"), waiting[0]).wait(patience)[0]
	want(t, r, messaging.Rejected, messaging.CodeBackpressure, messaging.NotTransmitted)
	if r.Failure.Category != messaging.CategoryThrottled {
		t.Errorf("category %v", r.Failure.Category)
	}
	if late.missing() != 1 {
		t.Error("a verdict on a message that the broker has not answered")
	}

	// Stopping is bounded while blocked.
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	began := time.Now()
	_ = otherP.Close(ctx)
	_ = other.Close(ctx)
	if took := time.Since(began); took > 3*time.Second {
		t.Errorf("stopping took %v", took)
	}
	want(t, otherLate.wait(patience)[0], messaging.Ambiguous, messaging.CodeConfirmTimeout, messaging.MayHaveBeenTransmitted)

	lift()
	wantConfirmed(t, late.wait(patience)...)
	wantConfirmed(t, publish(t, p, to("e", "k"), waiting...)...)
	if a.Blocked() {
		t.Error("still blocked")
	}
	for id, n := range got.IDs() {
		if n != 1 {
			t.Errorf("%s was delivered %d times", id, n)
		}
	}
}

// B17: confirms are matched per channel instance, so the first try after a
// restart is confirmed.
func restart(t *testing.T, server *brokertest.Server, v *brokertest.Vhost) {
	_, p := open(t, configFor(t, v), to("e", "k"))
	first, second := messages(10, noKey), messages(10, noKey)
	wantConfirmed(t, publish(t, p, to("e", "k"), first...)...)
	server.Stop()
	r := brief(t, p, patience, to("e", "k"), message("", "{}")).wait(patience)[0]
	want(t, r, messaging.Rejected, messaging.CodeBrokerUnreachable, messaging.NotTransmitted)
	server.StartNode(1)
	brokertest.Eventually(t, patience, "connected again", func() bool {
		_, err := p.adapter.Inspect(t.Context(), []transport.Endpoint{to("e", "k")})
		return err == nil
	})
	rs := publish(t, p, to("e", "k"), second...)
	wantConfirmed(t, rs...)
	if got := rs[0].Position.String(); got != "rabbitmq:e/k/1" {
		t.Errorf("tags do not start anew: %s", got)
	}
	got := brokertest.CaptureRabbit(t, v.URL(), "q")
	got.WaitIDs(t, 20, patience)
	if got.Len() != 20 {
		t.Errorf("%d deliveries of 20 messages", got.Len())
	}
}

// B10: a broker that stands still holds up nobody longer than asked for.
func paused(t *testing.T, server *brokertest.Server, v *brokertest.Vhost) {
	c := configFor(t, v)
	c.Heartbeat = time.Second
	_, p := open(t, c, to("e", "k"))
	other, otherP := open(t, configFor(t, v), to("e", "k"))
	for _, one := range []*Publisher{p, otherP} { // both channels of each are open
		wantConfirmed(t, publish(t, one, to("e", "k"), message("", "{}"), message("", "{}"))...)
	}
	server.Pause(1)
	resumed := false
	resume := func() {
		if !resumed {
			resumed = true
			server.Resume(1)
		}
	}
	defer resume()
	otherOpen := brief(t, otherP, patience, to("e", "k"), message("", "{}"))
	m := message("", "{}")
	r := brief(t, p, patience, to("e", "k"), m).wait(patience)[0] // by the heartbeat
	want(t, r, messaging.Ambiguous, messaging.CodeConnectionLost, messaging.MayHaveBeenTransmitted)
	r = brief(t, p, time.Second, to("e", "k"), message("", "{}")).wait(patience)[0]
	want(t, r, messaging.Rejected, messaging.CodeBrokerUnreachable, messaging.NotTransmitted)

	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	began := time.Now()
	_ = otherP.Close(ctx)
	_ = other.Close(ctx)
	if took := time.Since(began); took > 3*time.Second {
		t.Errorf("stopping took %v", took)
	}
	want(t, otherOpen.wait(patience)[0], messaging.Ambiguous, messaging.CodeConfirmTimeout, messaging.MayHaveBeenTransmitted)
	resume()
	retry(t, p, to("e", "k"), m)
}

// What was confirmed survives a SIGKILL of the broker; nothing that was called
// rejected is there.
func killed(t *testing.T, server *brokertest.Server, v *brokertest.Vhost) {
	_, p := open(t, configFor(t, v), to("e", "k"))
	ms := messages(5000, func(i int) string { return string(rune('a' + i%26)) })
	results := newVerdicts(t, len(ms))
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	published := make(chan struct{})
	go func() {
		defer close(published)
		p.Publish(ctx, to("e", "k"), ms, results.done)
	}()
	brokertest.Eventually(t, patience, "a third is confirmed", func() bool { return results.missing() < len(ms)*2/3 })
	server.Kill(1)
	cancel()
	<-published
	rs := results.wait(patience)
	server.StartNode(1)
	got := brokertest.CaptureRabbit(t, v.URL(), "q")
	retry(t, p, to("e", "k"), message("", "end"))
	brokertest.Eventually(t, patience, "the last message arrives", func() bool {
		all := got.All()
		return len(all) > 0 && string(all[len(all)-1].Body) == "end"
	})
	stored := got.IDs()
	for i, r := range rs {
		n := stored[ms[i].ID.String()]
		if r.Completion == messaging.Confirmed && n != 1 || r.Completion == messaging.Rejected && n != 0 {
			t.Errorf("message %d: %v %v, stored %d times", i, r.Completion, r.Failure, n)
		}
	}
	t.Log(tally(rs))
}
