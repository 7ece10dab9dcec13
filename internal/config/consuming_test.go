package config

import (
	"reflect"
	"testing"
	"time"
)

func TestConsumersAreResolvedWithTheDocumentedDefaults(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, retry string
		want        RetryPlan
	}{
		{"none", "{}", RetryPlan{Mode: RetryNone, MaxAttempts: 1, Initial: time.Second, Max: 30 * time.Second, Multiplier: 2, Jitter: JitterFull, Impact: AllowReorder}},
		{"inline", "{mode: INLINE}", RetryPlan{Mode: RetryInline, MaxAttempts: 3, Initial: time.Second, Max: 5 * time.Second, Multiplier: 2, Jitter: JitterFull, Impact: AllowReorder}},
		{"pause", "{mode: PAUSE_PARTITION, max-attempts: 7}", RetryPlan{Mode: PausePartition, MaxAttempts: 7, Initial: time.Second, Max: 30 * time.Second, Multiplier: 2, Jitter: JitterFull, Impact: Preserve}},
		{"stages", "{mode: RETRY_DESTINATION, initial-delay: 1m}", RetryPlan{Mode: RetryDestination, MaxAttempts: 3, Initial: time.Minute, Max: time.Minute, Multiplier: 2, Jitter: JitterNone, Impact: AllowReorder}},
		{"short", "{mode: BLOCKING, max-delay: 100ms}", RetryPlan{Mode: RetryBlocking, MaxAttempts: 3, Initial: 100 * time.Millisecond, Max: 100 * time.Millisecond, Multiplier: 2, Jitter: JitterFull, Impact: Preserve}},
	} {
		file, _, findings := load(t, edited(t, local, "messaging/consumers/order-projection/retry = "+c.retry))
		if findings != nil {
			t.Fatalf("%s: %v", c.name, findings)
		}
		got, ok := file.Consuming("order-projection")
		c.want.Retryable = []Category{"TRANSIENT_INFRASTRUCTURE", "THROTTLED", "PROCESSING_TRANSIENT"}
		if !ok || !reflect.DeepEqual(got.Retry, c.want) {
			t.Errorf("%s: %+v", c.name, got.Retry)
		}
	}
	file, _, _ := load(t, edited(t, local, "messaging/consumers/email-sender/concurrency = 4"))
	events, _ := file.Consuming("order-projection")
	if events.Group != "order-projection" || events.Unhandled != IgnoreUnhandled || events.PerPartition != 1 || events.Concurrency != 1 ||
		events.HandlerTimeout != 30*time.Second || events.RetryPublishes != 4 || events.OnExhausted != DeadLetter || events.Source.Physical["topic"] != "orders" {
		t.Errorf("%+v", events)
	}
	mails, _ := file.Consuming("email-sender")
	if mails.Queue != "mail.q" || mails.Unhandled != ParkUnhandled || mails.Prefetch != 8 {
		t.Errorf("%+v", mails)
	}
	if _, ok := file.Consuming("nobody"); ok {
		t.Error("an unknown consumer is resolved")
	}
}
