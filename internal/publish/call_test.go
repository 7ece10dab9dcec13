package publish_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/backend-skeleton/relay/internal/publish"
	"github.com/backend-skeleton/relay/messaging"
	"github.com/backend-skeleton/relay/messaging/transport"
)

// answers publishes nothing: each message is answered after its delay, or never.
type answers struct{ after []time.Duration }

func (a answers) Publish(_ context.Context, _ transport.Endpoint, ms []transport.Message, done func(int, messaging.PublishResult)) {
	for i := range ms {
		if a.after[i] >= 0 {
			go func() {
				<-time.After(a.after[i]) // virtual time
				done(i, messaging.PublishResult{Completion: messaging.Confirmed})
			}()
		}
	}
}

func (answers) Close(context.Context) error { return nil }

func TestDoGivesOneVerdictInTimeAndReportsLateAnswers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const timeout = time.Second
		a := answers{after: []time.Duration{0, timeout + publish.Grace/2, 10 * timeout, -1}}
		var mu sync.Mutex
		verdicts, resolved := map[int]messaging.PublishResult{}, map[int]bool{}
		start := time.Now()
		publish.Do(t.Context(), a, publish.Call{
			Messages: make([]transport.Message, len(a.after)),
			Timeout:  timeout,
			Verdict: func(i int, r messaging.PublishResult) {
				mu.Lock()
				defer mu.Unlock()
				if _, twice := verdicts[i]; twice {
					t.Errorf("message %d: two verdicts", i)
				}
				verdicts[i] = r
			},
			Resolved: func(i int, _ messaging.PublishResult, late bool) {
				mu.Lock()
				defer mu.Unlock()
				resolved[i] = late
			},
		})
		if got := time.Since(start); got != timeout+publish.Grace {
			t.Errorf("took %v, want %v", got, timeout+publish.Grace)
		}
		want := []messaging.Completion{messaging.Confirmed, messaging.Confirmed, messaging.Ambiguous, messaging.Ambiguous}
		for i, w := range want {
			if verdicts[i].Completion != w {
				t.Errorf("message %d is %v, want %v", i, verdicts[i].Completion, w)
			}
		}
		if c := verdicts[3].Failure.Code; c != messaging.CodeConfirmTimeout {
			t.Errorf("code %s, want %s", c, messaging.CodeConfirmTimeout)
		}
		<-time.After(20 * timeout) // virtual time: let the late answer come
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		if late, ok := resolved[2]; !ok || !late {
			t.Errorf("the late answer was not reported as late")
		}
		if late := resolved[0]; late {
			t.Errorf("an answer in time was reported as late")
		}
		if _, ok := resolved[3]; ok {
			t.Errorf("a message without answer was resolved")
		}
	})
}

// An adapter that says little is taken at the least that it said: every field of the result has a word, a confirmed message
// was sent, and nothing is proved that was not called so.
func TestAResultIsAlwaysFilled(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ said, want messaging.PublishResult }{
		"confirmed": {
			messaging.PublishResult{Completion: messaging.Confirmed, Evidence: messaging.Evidence{Transmission: messaging.NotTransmitted}},
			messaging.PublishResult{
				Completion: messaging.Confirmed, Routing: messaging.RoutingUnknown, Attempts: 1,
				Evidence: messaging.Evidence{Transmission: messaging.Transmitted, BrokerAccepted: true, Level: messaging.LevelNone},
			},
		},
		"rejected": {
			messaging.PublishResult{Completion: messaging.Rejected, Routing: messaging.RoutingUnroutable},
			messaging.PublishResult{
				Completion: messaging.Rejected, Routing: messaging.RoutingUnroutable, Attempts: 1,
				Evidence: messaging.Evidence{Transmission: messaging.MayHaveBeenTransmitted, Level: messaging.LevelNone},
			},
		},
		"not sent": {
			messaging.PublishResult{Completion: messaging.Rejected, Evidence: messaging.Evidence{Transmission: messaging.NotTransmitted}},
			messaging.PublishResult{
				Completion: messaging.Rejected, Routing: messaging.RoutingUnknown,
				Evidence: messaging.Evidence{Transmission: messaging.NotTransmitted, Level: messaging.LevelNone},
			},
		},
		"nothing": {
			messaging.PublishResult{},
			messaging.PublishResult{
				Completion: messaging.Ambiguous, Routing: messaging.RoutingUnknown, Attempts: 1,
				Evidence: messaging.Evidence{Transmission: messaging.MayHaveBeenTransmitted, Level: messaging.LevelNone},
			},
		},
	} {
		b := newBench(t, &edge{answer: func(transport.Message) *messaging.PublishResult { return &c.said }}, 0)
		r, _ := publisherOf(t, b).Publish(t.Context(), event(""), nil)
		if (r.Failure == nil) != (r.Completion == messaging.Confirmed) {
			t.Errorf("%s: failure %v", name, r.Failure)
		}
		r.Failure, r.Elapsed = nil, 0
		if r != c.want {
			t.Errorf("%s: %+v, want %+v", name, r, c.want)
		}
	}
}
