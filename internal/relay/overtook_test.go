package relay

import (
	"testing"

	"github.com/backend-skeleton/relay/internal/outbox"
	"github.com/backend-skeleton/relay/messaging"
)

// What was stored behind a refused message of its key is counted; what was stored before it, or behind one of which nobody
// knows, is not.
func TestWhatOvertookARefusedRowIsCounted(t *testing.T) {
	t.Parallel()
	const confirmed, refused, unknown = messaging.Confirmed, messaging.Rejected, messaging.Ambiguous
	for name, c := range map[string]struct {
		call []messaging.Completion
		want int
	}{
		"all stored":                {[]messaging.Completion{confirmed, confirmed}, 0},
		"a prefix":                  {[]messaging.Completion{confirmed, refused, refused}, 0},
		"one hole":                  {[]messaging.Completion{confirmed, refused, confirmed, confirmed}, 2},
		"two holes":                 {[]messaging.Completion{refused, confirmed, refused, confirmed}, 2},
		"behind one without answer": {[]messaging.Completion{unknown, confirmed}, 0},
	} {
		counted := 0
		p := &pump{d: &Destination{}, r: &Relay{c: Config{Hooks: Hooks{Overtook: func(_ messaging.DestinationName, rows int) { counted += rows }}}}}
		var call []*flight
		for i, completion := range c.call {
			call = append(call, &flight{row: &outbox.Row{Seq: int64(i)}, result: messaging.PublishResult{Completion: completion}})
		}
		if p.countHoles(call); counted != c.want {
			t.Errorf("%s: %d rows counted, want %d", name, counted, c.want)
		}
	}
}
