package rabbitmq

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/backend-skeleton/relay/internal/brokertest"
	"github.com/backend-skeleton/relay/messaging"
	"github.com/backend-skeleton/relay/messaging/transport"
)

// Connections are cut at random places while several callers publish and retry
// as the relay does: nothing is lost, and of each key the first copies arrive in
// order.
func TestEvidence_NothingLostNothingOutOfOrderUnderRandomCuts(t *testing.T) {
	t.Parallel()
	v := bound(t)
	got := brokertest.CaptureRabbit(t, v.URL(), "q")
	proxy := newFaultProxy(t, v.Addr())
	c := through(configFor(t, v), proxy)
	c.BackoffInitial, c.BackoffMax = 10*time.Millisecond, 50*time.Millisecond
	_, p := open(t, c, to("e", "k"))
	brokertest.Eventually(t, patience, "the queue was seen", func() bool { return p.KeyPrefix(to("e", "k")) })
	// Each side's frames run to the end of a countdown of random length.
	countdown := func(most int64) func(amqpFrame) fate {
		var left atomic.Int64
		left.Store(most)
		return func(amqpFrame) fate {
			if left.Add(-1) == 0 {
				left.Store(20 + rand.Int64N(most))
				return cut
			}
			return pass
		}
	}
	proxy.client(countdown(1500))
	proxy.server(countdown(150))

	const callers, keys, each = 4, 5, 60 // keys per caller, messages per key
	all := make([][]transport.Message, callers)
	var running sync.WaitGroup
	for caller := range callers {
		all[caller] = messages(keys*each, func(i int) string { return string(rune('a'+caller)) + string(rune('a'+i%keys)) })
		running.Go(func() { publishAll(t, p, all[caller]) })
	}
	running.Wait()

	var ids []string
	for _, ms := range all {
		for i := range ms {
			ids = append(ids, ms[i].ID.String())
		}
	}
	arrived := got.WaitFor(t, patience, ids...)
	first := map[string]int{}
	for at, m := range arrived {
		if _, again := first[m.ID]; !again {
			first[m.ID] = at
		}
	}
	for _, ms := range all {
		for i := keys; i < len(ms); i++ {
			if first[ms[i-keys].ID.String()] > first[ms[i].ID.String()] {
				t.Errorf("message %d of key %s came before its predecessor", i/keys, ms[i].Key)
			}
		}
	}
	if proxy.dials.Load() < 3 {
		t.Errorf("%d connections: the cuts did not happen", proxy.dials.Load())
	}
	t.Logf("%d connections, %d deliveries of %d messages", proxy.dials.Load(), len(arrived), len(ids))
}

// publishAll sends what is not confirmed again, in order, until all is.
func publishAll(t *testing.T, p *Publisher, ms []transport.Message) {
	deadline := time.Now().Add(2 * patience)
	for len(ms) > 0 {
		if time.Now().After(deadline) {
			t.Errorf("%d messages are not confirmed after %v", len(ms), 2*patience)
			return
		}
		part := ms[:min(100, len(ms))]
		results := newVerdicts(t, len(part))
		p.Publish(t.Context(), to("e", "k"), part, results.done)
		select {
		case <-results.all:
		case <-time.After(patience):
			t.Errorf("%d messages have no verdict after %v", results.missing(), patience)
			return
		}
		left := make([]transport.Message, 0, len(ms))
		for i, r := range results.results {
			if r.Completion != messaging.Confirmed {
				left = append(left, part[i])
			}
		}
		ms = append(left, ms[len(part):]...)
	}
}
