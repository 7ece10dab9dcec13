package kafka

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/backend-skeleton/relay/messaging"
	"github.com/backend-skeleton/relay/messaging/transport"
)

// TestKeyPrefixUnderFaults: calls of many messages over several keys, at once, over
// few partitions and a wire that fails in every way. Whatever is stored of a call's
// key is a prefix in order; confirmed messages are stored once, rejected ones never.
func TestKeyPrefixUnderFaults(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, c cluster) {
		const callers, rounds, keys, perKey = 4, 8, 3, 40
		topic, w := c.topic(t, 2), newWire()
		a, p := c.adapter(t, w.use, quick, func(c *Config) { c.BatchBytes = 2000 })
		if !a.KeyPrefix(endpoint(topic)) || !p.KeyPrefix(endpoint(topic)) {
			t.Fatal("the prefix is not promised")
		}
		to := endpoint(topic, "timeout", time.Second, "request-timeout", 100*time.Millisecond, "delivery-timeout", 700*time.Millisecond, "abandon-after", 5*time.Second)
		expectAll(t, publish(t, p, endpoint(topic), 20*time.Second, message("warm", "warm.up.0")), confirmedVerdict)
		for i := range 100 { // single faults, and rows of one kind that outlast the delivery timeout
			f, times := fault(rand.N(int(faultMute)+1)), 1
			if i%5 == 2 {
				f, times = faultUnsent+fault(i/5)%faultMute, 10
			}
			w.next(faultNone, faultNone, faultNone)
			for range times {
				w.next(f)
			}
		}

		type of struct{ call, key, i int }
		verdicts := make([]map[of]messaging.PublishResult, callers)
		var all sync.WaitGroup
		for caller := range callers {
			verdicts[caller] = map[of]messaging.PublishResult{}
			all.Go(func() {
				for round := range rounds {
					call := caller*rounds + round
					var ms []transport.Message
					var ids []of
					for i := range perKey {
						for k := range keys {
							ids = append(ids, of{call, k, i})
							ms = append(ms, message(fmt.Sprintf("c%dk%d", caller, k), fmt.Sprintf("%d.%d.%d", call, k, i)))
						}
					}
					for n, r := range publish(t, p, to, time.Duration(100+rand.IntN(900))*time.Millisecond, ms...) {
						verdicts[caller][ids[n]] = r
					}
				}
			})
		}
		all.Wait()
		w.set(faultNone)

		stored := map[of]int{}
		last := map[[2]int]int{}
		for _, v := range values(c.stored(t, topic)) {
			parts := strings.Split(v, ".")
			if parts[0] == "warm" {
				continue
			}
			var n [3]int
			for i := range n {
				n[i], _ = strconv.Atoi(parts[i])
			}
			id := of{n[0], n[1], n[2]}
			stored[id]++
			// Nothing of a call's key is missing before it, nothing comes twice or back.
			next, seen := last[[2]int{id.call, id.key}]
			if !seen {
				next = 0
			}
			if id.i != next {
				t.Errorf("call %d, key %d: message %d is stored where %d should be", id.call, id.key, id.i, next)
			}
			last[[2]int{id.call, id.key}] = id.i + 1
		}
		count := map[messaging.Completion]int{}
		for _, of := range verdicts {
			for id, r := range of {
				count[r.Completion]++
				switch {
				case r.Completion == messaging.Confirmed && stored[id] != 1:
					t.Errorf("%v is confirmed and stored %d times", id, stored[id])
				case r.Completion == messaging.Rejected && stored[id] != 0:
					t.Errorf("%v is rejected (%s) and stored %d times", id, verdict(r), stored[id])
				}
			}
		}
		t.Logf("%d confirmed, %d rejected, %d ambiguous, %d produce requests", count[messaging.Confirmed], count[messaging.Rejected], count[messaging.Ambiguous], w.count())
		if count[messaging.Confirmed] == 0 || count[messaging.Ambiguous] == 0 {
			t.Error("the faults had no effect: the test proves nothing")
		}
	})
}
