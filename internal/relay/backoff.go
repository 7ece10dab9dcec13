package relay

import (
	"math"
	"math/rand/v2"
	"time"
)

// Backoff between attempts: exponential, with full jitter or none.
type Backoff struct {
	// Initial delay; default 1 s. Max caps every delay; default 5 minutes.
	Initial, Max time.Duration
	// Multiplier per attempt; default 2. 1 keeps the delay constant.
	Multiplier float64
	// NoJitter gives the full delay instead of a random part of it.
	NoJitter bool
}

func (b *Backoff) setDefaults() {
	def(&b.Initial, time.Second)
	def(&b.Max, 5*time.Minute)
	def(&b.Multiplier, 2)
}

// after gives the delay after the given number of attempts, counted from 1: above zero, at most Max, for every number.
func (b Backoff) after(attempts int32) time.Duration {
	whole := b.Max
	if full := float64(b.Initial) * math.Pow(b.Multiplier, float64(max(attempts, 1)-1)); full < float64(b.Max) { // neither infinity nor NaN
		whole = time.Duration(full)
	}
	if !b.NoJitter {
		if part := float64(whole) * rand.Float64(); part < float64(whole) {
			whole = time.Duration(part)
		}
	}
	return max(whole, time.Millisecond)
}
