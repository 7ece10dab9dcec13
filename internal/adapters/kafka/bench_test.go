package kafka

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/backend-skeleton/relay/messaging"
	"github.com/backend-skeleton/relay/messaging/transport"
)

// BenchmarkDrain publishes messages of 300 bytes with 10,000 in flight, in calls of
// 1,000, without keys and under one hot key.
//
//	go test -run - -bench Drain ./internal/adapters/kafka
func BenchmarkDrain(b *testing.B) {
	for _, where := range []struct {
		name string
		at   func(testing.TB) cluster
	}{{"real", realCluster}, {"embedded", func(t testing.TB) cluster { return fakeCluster(t) }}} {
		for _, keyed := range []struct {
			name string
			key  func(call, i int) string
			// calls that may be open at once: of one key only one
			open int
		}{
			{"keyless", func(int, int) string { return "" }, 10},
			{"manyKeys", func(call, i int) string { return fmt.Sprint(call%10, "-", i%100) }, 10},
			{"hotKey100", func(int, int) string { return "hot" }, 1},
			{"hotKey1000", func(int, int) string { return "hot" }, 1},
			{"hotKey3000", func(int, int) string { return "hot" }, 1},
		} {
			b.Run(where.name+"/"+keyed.name, func(b *testing.B) {
				c := where.at(b)
				topic := c.topic(b, 6)
				_, p := c.adapter(b, func(c *Config) { c.ProducerInFlight = 10_000 })
				size := 1000
				switch keyed.name {
				case "hotKey100":
					size = 100
				case "hotKey3000":
					size = 3000
				}
				value := make([]byte, 300)
				calls := make([][]transport.Message, keyed.open)
				for n := range calls {
					for i := range size {
						m := message(keyed.key(n, i), "0190a5f2-0000-7000-8000-000000000000")
						m.Value = value
						calls[n] = append(calls[n], m)
					}
				}
				if r := publish(b, p, endpoint(topic), 10*time.Second, message("k", "warm")); r[0].Completion != messaging.Confirmed {
					b.Fatal(verdict(r[0]))
				}
				b.ResetTimer()
				started := time.Now()
				var all sync.WaitGroup
				var failed sync.Once
				for n := range calls {
					all.Go(func() {
						for sent := n * size; sent < b.N; sent += keyed.open * size {
							var left sync.WaitGroup
							left.Add(size)
							ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
							p.Publish(ctx, endpoint(topic), calls[n], func(_ int, r messaging.PublishResult) {
								if r.Completion != messaging.Confirmed {
									failed.Do(func() { b.Error(verdict(r)) })
								}
								left.Done()
							})
							left.Wait()
							cancel()
						}
					})
				}
				all.Wait()
				sent := (b.N + size - 1) / size * size
				b.ReportMetric(float64(sent)/time.Since(started).Seconds(), "msg/s")
			})
		}
	}
}
