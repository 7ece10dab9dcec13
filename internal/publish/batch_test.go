package publish_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/backend-skeleton/relay/internal/publish"
	"github.com/backend-skeleton/relay/messaging"
	"github.com/backend-skeleton/relay/messaging/transport"
)

func batchOf(t *testing.T, b *bench) messaging.BatchPublisher[order] {
	t.Helper()
	b.Granted = all
	p, err := publish.NewBatch(b.Destination, created)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func events(keys ...string) (es []messaging.Envelope[order]) {
	for i, key := range keys {
		e := event(key)
		e.Payload.ID = fmt.Sprint(i)
		es = append(es, e)
	}
	return es
}

// The result keeps success, reject and ambiguity per index.
func TestPublishBatchGivesAResultPerIndex(t *testing.T) {
	t.Parallel()
	b := newBench(t, &edge{answer: func(m transport.Message) *messaging.PublishResult {
		switch string(m.Value) {
		case `{"id":"1"}`:
			return refused(messaging.Rejected, messaging.CategoryValidation, messaging.CodeRecordRefused)
		case `{"id":"2"}`:
			return refused(messaging.Ambiguous, messaging.CategoryAmbiguous, messaging.CodeConnectionLost)
		}
		r := confirmed()
		return &r
	}}, 0)
	es := events("", "", "", "", "")
	es[3].Type = "order.paid" // refused before it is sent
	rs, err := batchOf(t, b).PublishBatch(t.Context(), es, nil)
	var failed *messaging.BatchError
	if !errors.As(err, &failed) || len(failed.Items) != 3 {
		t.Fatalf("%v", err)
	}
	want := []messaging.Completion{messaging.Confirmed, messaging.Rejected, messaging.Ambiguous, messaging.Rejected, messaging.Confirmed}
	for i, w := range want {
		if rs[i].Completion != w || (failed.Items[i] == nil) != (w == messaging.Confirmed) {
			t.Errorf("item %d: %+v, %v", i, rs[i], failed.Items[i])
		}
	}
	if len(b.edge.calls) != 1 || len(b.edge.sent()) != 4 {
		t.Errorf("%d calls with %d messages", len(b.edge.calls), len(b.edge.sent()))
	}
	if b.Broker.InFlight() != 0 {
		t.Errorf("%d in flight", b.Broker.InFlight())
	}
}

// Without the adapter's help a key's messages go one call after the other, and nothing follows a failure.
func TestPublishBatchKeepsTheOrderOfKeys(t *testing.T) {
	t.Parallel()
	for _, prefix := range []bool{false, true} {
		b := newBench(t, &edge{prefix: prefix, answer: func(m transport.Message) *messaging.PublishResult {
			if string(m.Value) == `{"id":"3"}` {
				return refused(messaging.Rejected, messaging.CategoryTransientInfrastructure, messaging.CodeNotEnoughReplicas)
			}
			r := confirmed()
			return &r
		}}, 0)
		b.Ordered = true
		rs, err := batchOf(t, b).PublishBatch(t.Context(), events("a", "b", "a", "a", "b", "a"), nil)
		var calls []string
		for _, c := range b.edge.calls {
			calls = append(calls, strings.Join(payloads(c), ""))
		}
		want := []string{`{"id":"0"}{"id":"1"}`, `{"id":"2"}{"id":"4"}`, `{"id":"3"}`}
		if prefix { // the adapter itself keeps a prefix; this one does not, so nothing is said of what follows
			want = []string{`{"id":"0"}{"id":"1"}{"id":"2"}{"id":"3"}{"id":"4"}{"id":"5"}`}
		} else if codeOf(err) == "" || rs[5].Failure.Code != messaging.CodePredecessorNotStored {
			t.Errorf("the message after the failure: %+v", rs[5])
		}
		if !slices.Equal(calls, want) {
			t.Errorf("prefix %v: calls %v, want %v", prefix, calls, want)
		}
	}
}

func TestPublishBatchHasLimits(t *testing.T) {
	t.Parallel()
	b := newBench(t, &edge{}, 3)
	b.BatchMessages, b.BatchBytes = 8, 100
	p := batchOf(t, b)
	if _, err := p.PublishBatch(t.Context(), events(make([]string, 9)...), nil); codeOf(err) != messaging.CodeTooLarge {
		t.Errorf("nine messages: %v", err)
	}
	large := events("", "")
	large[1].Payload.ID = strings.Repeat("x", 100)
	if _, err := p.PublishBatch(t.Context(), large, nil); codeOf(err) != messaging.CodeTooLarge {
		t.Errorf("over 100 bytes: %v", err)
	}
	if len(b.edge.calls) != 0 {
		t.Error("a part of a refused batch was sent")
	}
	// More messages than places go in several calls.
	if _, err := p.PublishBatch(t.Context(), events(make([]string, 8)...), nil); err != nil || len(b.edge.calls) != 3 {
		t.Errorf("%d calls, %v", len(b.edge.calls), err)
	}
	if rs, err := p.PublishBatch(t.Context(), nil, nil); err != nil || len(rs) != 0 {
		t.Errorf("nothing: %v, %v", rs, err)
	}
}
