package consume

import (
	"math"
	"slices"
	"time"

	"github.com/backend-skeleton/relay/messaging"
)

// MaxInline is the longest wait in place.
const MaxInline = 5 * time.Second

// outagePolicy paces what is waited for without counting attempts.
var outagePolicy = messaging.RetryPolicy{InitialDelay: 500 * time.Millisecond, MaxDelay: 30 * time.Second, Multiplier: 2, Jitter: 0.5}

// Delay is the wait after the given attempt, the first being 1: exponential, spread by the policy's jitter, above zero and
// at most MaxDelay for every attempt number. random is within (0, 1]; 0 is 1.
func Delay(p messaging.RetryPolicy, attempt int, random float64) time.Duration {
	whole := plain(p, attempt)
	if random <= 0 || random > 1 || math.IsNaN(random) {
		random = 1
	}
	jitter := min(max(p.Jitter, 0), 1)
	d := float64(whole) * (1 - jitter + jitter*random)
	if !(d < float64(whole)) { // also for what no float can hold, and NaN
		return whole
	}
	return max(time.Duration(d), min(time.Millisecond, whole))
}

// plain is the wait without jitter.
func plain(p messaging.RetryPolicy, attempt int) time.Duration {
	initial := max(p.InitialDelay, time.Millisecond)
	most := p.MaxDelay
	if most <= 0 {
		most = initial
	}
	growth := p.Multiplier
	if growth < 1 || math.IsNaN(growth) {
		growth = 1
	}
	d := float64(initial) * math.Pow(growth, float64(max(attempt, 1)-1))
	if d >= float64(most) { // infinity as well
		return most
	}
	return time.Duration(d)
}

// Stages are the distinct waits of a policy that moves messages to retry stages, in rising order: one stage each.
func Stages(p messaging.RetryPolicy) (stages []time.Duration) {
	if p.Mode != messaging.ModeRetryDestination {
		return nil
	}
	for attempt := 1; attempt < p.MaxAttempts; attempt++ {
		d := plain(p, attempt)
		if slices.Contains(stages, d) { // from here on they are all alike
			break
		}
		stages = append(stages, d)
	}
	return stages
}

// stageOf finds the stage that waits at least d, or the longest; stages count from 1.
func stageOf(p messaging.RetryPolicy, d time.Duration) (stage int, wait time.Duration) {
	stages := Stages(p)
	for i, s := range stages {
		if s >= d {
			return i + 1, s
		}
	}
	return len(stages), stages[len(stages)-1]
}
