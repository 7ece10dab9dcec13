package consume_test

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/backend-skeleton/relay/internal/consume"
	"github.com/backend-skeleton/relay/messaging"
)

// Whatever the numbers, also those that no file lets in: every wait is above zero and within the cap, jitter only shortens
// it, a later attempt never waits less, and the stages rise to the longest wait.
func FuzzDelay(f *testing.F) {
	f.Add(int64(time.Second), int64(5*time.Minute), 2.0, 1.0, 3, 0.5)
	f.Add(int64(time.Hour), int64(math.MaxInt64), 10.0, 0.0, math.MaxInt, 1.0)
	f.Add(int64(math.MaxInt64), int64(math.MaxInt64), math.NaN(), math.Inf(1), math.MinInt, math.NaN())
	f.Add(int64(-1), int64(0), math.Inf(1), -1.0, 0, 2.0)
	f.Add(int64(1), int64(1), 0.0, 0.999, 1, math.SmallestNonzeroFloat64)
	f.Fuzz(func(t *testing.T, initial, most int64, growth, jitter float64, attempt int, random float64) {
		p := messaging.RetryPolicy{InitialDelay: time.Duration(initial), MaxDelay: time.Duration(most), Multiplier: growth, Jitter: jitter}
		longest := p.MaxDelay
		if longest <= 0 {
			longest = max(p.InitialDelay, time.Millisecond)
		}
		plain := p
		plain.Jitter = 0
		full, d := consume.Delay(plain, attempt, random), consume.Delay(p, attempt, random)
		if d <= 0 || d > full || full > longest || p.InitialDelay >= longest && full != longest {
			t.Fatalf("%+v, attempt %d, random %v: %v of %v", p, attempt, random, d, full)
		}
		if attempt < math.MaxInt {
			if next := consume.Delay(plain, attempt+1, random); next < full {
				t.Fatalf("%+v: %v after attempt %d, %v after the next", p, full, attempt, next)
			}
		}
		p.Mode, p.MaxAttempts = messaging.ModeRetryDestination, max(attempt, 0)%1000+2 // as many as a file allows
		stages := consume.Stages(p)
		if len(stages) == 0 || len(stages) >= p.MaxAttempts || !slices.IsSorted(stages) || len(slices.Compact(slices.Clone(stages))) != len(stages) ||
			stages[len(stages)-1] > longest {
			t.Fatalf("%+v: stages %v", p, stages)
		}
	})
}
