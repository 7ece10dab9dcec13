package relay

import (
	"fmt"
	"testing"

	"github.com/google/uuid"

	"github.com/backend-skeleton/relay/internal/outbox"
)

// A window names at most so many rows, however many keys want a look, and after crashes ever fewer.
func TestRunsFitTheWindowsOfTheirLanes(t *testing.T) {
	t.Parallel()
	p := &pump{r: &Relay{c: Config{Batch: 100}}}
	for _, c := range []struct {
		crashes           int32
		named, keys, run  int
		wantKeys, wantRun int
	}{
		{0, 0, 1, runLength, 1, runLength},
		{0, 0, 200, runLength, 200, 2},
		{0, 400, 3, runLength, 3, 33},
		{0, 498, 3, runLength, 2, 1},
		{1, 0, 1, runLength, 1, 12},
		{1, 0, 20, 1, 12, 1},
		{9, 0, 5, runLength, 1, 1},
	} {
		l := newLane(p, outbox.Lease{Lane: 1, Crashes: c.crashes}, 0)
		for range c.named {
			l.ids[uuid.New()] = struct{}{}
		}
		var keys []outbox.Key
		byName := map[outbox.Key]*key{}
		for i := range c.keys {
			k := outbox.Key{Lane: 1, Key: fmt.Sprint(i)}
			keys, byName[k] = append(keys, k), l.key(k.Key)
		}
		fit, run := p.fitWindows(keys, byName, c.run)
		if len(fit) != c.wantKeys || run != c.wantRun {
			t.Errorf("%+v: %d keys with runs of %d", c, len(fit), run)
		}
		if n := len(l.ids) + len(fit)*run; n > runLength {
			t.Errorf("%+v: %d rows named", c, n)
		}
	}
}
