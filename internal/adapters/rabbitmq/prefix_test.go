package rabbitmq

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/backend-skeleton/relay/internal/brokertest"
	"github.com/backend-skeleton/relay/messaging"
)

// What was seen of a queue may be true no more: a message that is returned or refused takes the prefix back at once, and
// later looks at the queue say the same.
func TestARefusalTakesThePrefixBack(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		code   string
		change func(*testing.T, *brokertest.Vhost) // what happens to the queue behind the relay's back
	}{
		"the binding is gone": {messaging.CodeUnroutable, func(t *testing.T, v *brokertest.Vhost) { v.Unbind(t, "e", "q", "k") }},
		"it has a limit now": {messaging.CodeNacked, func(t *testing.T, v *brokertest.Vhost) {
			v.Policy(t, "limit", "^q$", map[string]any{"max-length": 1, "overflow": "reject-publish"})
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v := bound(t)
			a, p := open(t, configFor(t, v), to("e", "k"))
			brokertest.Eventually(t, patience, "the queue was seen", func() bool { return p.KeyPrefix(to("e", "k")) })
			wantConfirmed(t, publish(t, p, to("e", "k"), message("a", "{}"))...)
			c.change(t, v)
			brokertest.Eventually(t, patience, "a message to be refused", func() bool {
				r := publish(t, p, to("e", "k"), message("a", "{}"))[0]
				return r.Failure != nil && r.Failure.Code == c.code
			})
			if p.KeyPrefix(to("e", "k")) {
				t.Error("the prefix is promised still")
			}
			// What the API shows of a policy is some seconds old.
			brokertest.Eventually(t, patience, "a look to find that the prefix does not hold", func() bool {
				_, err := a.Capabilities(t.Context(), to("e", "k"))
				return err == nil && !p.KeyPrefix(to("e", "k"))
			})
		})
	}
}

// The first message of a channel goes alone, and gets no answer: those behind it are not written, so that they are in no
// doubt, until patience with the first is over; then a new channel takes them.
func TestEvidence_BehindAFirstMessageWithoutAnswer(t *testing.T) {
	t.Parallel()
	v := bound(t)
	proxy := newFaultProxy(t, v.Addr())
	_, p := open(t, through(configFor(t, v), proxy), to("e", "k"))
	var silent atomic.Bool
	silent.Store(true)
	proxy.server(func(f amqpFrame) fate {
		if f.acks() && silent.Load() {
			return swallow
		}
		return pass
	})
	const abandon = 2 * time.Second
	e := to("e", "k", "abandon-after", abandon)
	first := brief(t, p, 300*time.Millisecond, e, message("a", `"first"`))
	behind := brief(t, p, 300*time.Millisecond, e, message("a", `"behind"`)).wait(patience)[0]
	want(t, behind, messaging.Rejected, messaging.CodeNotSent, messaging.NotTransmitted)
	if first.missing() != 1 {
		t.Error("the first one has a verdict, and patience with it is not over")
	}
	want(t, first.wait(patience)[0], messaging.Ambiguous, messaging.CodeConfirmTimeout, messaging.MayHaveBeenTransmitted)
	silent.Store(false)
	wantConfirmed(t, publish(t, p, e, message("a", `"behind"`), message("a", `"more"`))...)
	copies := map[string]int{}
	capture := brokertest.CaptureRabbit(t, v.URL(), "q")
	for _, m := range capture.Wait(t, 3, patience) {
		copies[string(m.Body)]++
	}
	if copies[`"behind"`] != 1 || copies[`"first"`] != 1 {
		t.Errorf("the queue has %v, want each once", copies)
	}
}
