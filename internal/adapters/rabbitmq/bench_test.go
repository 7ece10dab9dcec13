package rabbitmq

import (
	"strings"
	"sync"
	"testing"

	"github.com/backend-skeleton/relay/messaging"
	"github.com/backend-skeleton/relay/messaging/transport"
)

// BenchmarkPublish measures confirmed messages of 300 bytes through the real
// broker into one quorum queue, in calls of 100, with and without keys.
func BenchmarkPublish(b *testing.B) {
	body := strings.Repeat("x", 300)
	for name, key := range map[string]func(int) string{
		"keyless": noKey,
		"onekey":  func(int) string { return "a" },
		"keys":    func(i int) string { return string(rune('a' + i%26)) },
	} {
		b.Run(name, func(b *testing.B) {
			v := bound(b)
			c := configFor(b, v)
			c.ProducerInFlight = 4000
			_, p := open(b, c, to("e", "k"))
			const size = 100
			ms := make([]transport.Message, b.N)
			for i := range ms {
				ms[i] = message(key(i), body)
			}
			var left sync.WaitGroup
			left.Add(len(ms))
			done := func(_ int, r messaging.PublishResult) {
				if r.Completion != messaging.Confirmed {
					b.Errorf("%v", r.Failure)
				}
				left.Done()
			}
			b.ReportAllocs()
			b.ResetTimer()
			for at := 0; at < len(ms); at += size {
				p.Publish(b.Context(), to("e", "k"), ms[at:min(at+size, len(ms))], done)
			}
			left.Wait()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "msg/s")
		})
	}
}
