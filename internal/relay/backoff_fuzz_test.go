package relay

import (
	"math"
	"testing"
	"time"
)

// Whatever the numbers, also those that no file lets in: every wait is above zero and within the cap, jitter only shortens
// it, and a later attempt never waits less.
func FuzzBackoff(f *testing.F) {
	f.Add(int64(time.Second), int64(5*time.Minute), 2.0, int32(3))
	f.Add(int64(time.Second), int64(5*time.Minute), 10.0, int32(math.MaxInt32))
	f.Add(int64(math.MaxInt64), int64(math.MaxInt64), 1.0, int32(math.MinInt32))
	f.Add(int64(time.Hour), int64(time.Second), math.NaN(), int32(0))
	f.Add(int64(1), int64(1), math.Inf(1), int32(1))
	f.Fuzz(func(t *testing.T, initial, most int64, growth float64, attempts int32) {
		b := Backoff{Initial: time.Duration(initial), Max: time.Duration(most), Multiplier: growth, NoJitter: true}
		longest := max(b.Max, time.Millisecond)
		full := b.after(attempts)
		if full <= 0 || full > longest {
			t.Fatalf("%+v after %d attempts: %v", b, attempts, full)
		}
		if growth >= 1 && initial > 0 && attempts < math.MaxInt32 {
			if next := b.after(attempts + 1); next < full {
				t.Fatalf("%+v: %v after %d attempts, %v after the next", b, full, attempts, next)
			}
		}
		b.NoJitter = false
		if d := b.after(attempts); d <= 0 || d > full {
			t.Fatalf("%+v after %d attempts: %v of %v", b, attempts, d, full)
		}
	})
}
