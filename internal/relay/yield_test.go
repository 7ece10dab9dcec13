package relay

import (
	"testing"
	"time"
)

func TestRetentionYields(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		took  time.Duration
		busy  bool
		share float64
		want  time.Duration
	}{
		"an idle relay does not wait":       {20 * time.Millisecond, false, 0.25, 0},
		"a busy one takes its share":        {20 * time.Millisecond, true, 0.25, 60 * time.Millisecond},
		"a slow database is left to others": {200 * time.Millisecond, false, 0.25, 600 * time.Millisecond},
		"the whole share":                   {200 * time.Millisecond, true, 1, 0},
		"it never stops":                    {5 * time.Second, true, 0.01, longestYield},
	} {
		if got := yield(c.took, c.busy, c.share); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}
