package brokertest

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// CaptureKafka keeps every record of topics, from the first one on, committed or not, until the test ends. It reads
// without a group, follows leaders that move and waits for brokers that are away.
func CaptureKafka(t testing.TB, bootstrap string, topics ...string) *Capture {
	t.Helper()
	client, err := kgo.NewClient(
		kgo.SeedBrokers(strings.Split(bootstrap, ",")...),
		kgo.ConsumeTopics(topics...),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchMaxWait(100*time.Millisecond),
		kgo.MetadataMinAge(100*time.Millisecond),
		kgo.MetadataMaxAge(2*time.Second),
		kgo.RetryBackoffFn(func(int) time.Duration { return 100 * time.Millisecond }),
	)
	if err != nil {
		t.Fatalf("make a Kafka consumer: %v", err)
	}
	c := newCapture()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			fetches := client.PollFetches(ctx)
			if ctx.Err() != nil || fetches.IsClientClosed() {
				return
			}
			// Errors of single partitions pass or repeat; a test that misses records says so itself.
			fetches.EachRecord(func(r *kgo.Record) { c.add(fromRecord(r)) })
		}
	}()
	t.Cleanup(func() {
		cancel()
		<-done
		client.Close()
	})
	return c
}

func fromRecord(r *kgo.Record) Message {
	m := Message{
		Key: string(r.Key), HasKey: r.Key != nil, Headers: map[string][]string{},
		Body: r.Value, From: r.Topic, Arrived: time.Now(), Record: r,
	}
	for _, h := range r.Headers {
		addHeader(m.Headers, h.Key, string(h.Value))
	}
	m.ID = m.Header(messageID)
	return m
}
