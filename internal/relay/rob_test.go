package relay

import (
	"testing"
	"time"
)

func TestALeapOfTheDatabasesClock(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	last := reading{clock: at, from: 10 * time.Second, to: 11 * time.Second}
	for name, c := range map[string]struct {
		next reading
		want bool
	}{
		"as time goes":          {reading{at.Add(time.Minute), 70 * time.Second, 71 * time.Second}, false},
		"within the statements": {reading{at.Add(62 * time.Second), 70 * time.Second, 71 * time.Second}, false},
		"a slow statement":      {reading{at.Add(80 * time.Second), 70 * time.Second, 100 * time.Second}, false},
		"ten minutes on":        {reading{at.Add(11 * time.Minute), 70 * time.Second, 71 * time.Second}, true},
		"ten minutes back":      {reading{at.Add(-9 * time.Minute), 70 * time.Second, 71 * time.Second}, true},
		"a little more":         {reading{at.Add(64 * time.Second), 70 * time.Second, 71 * time.Second}, true},
	} {
		if got := last.leapt(c.next, 2*time.Second); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}
