package rabbitmq

import (
	"testing"

	"github.com/backend-skeleton/relay/internal/brokertest"
	"github.com/backend-skeleton/relay/messaging"
)

// What was seen of a queue may be true no more: a message that is returned or refused takes the prefix back at once, and
// later looks at the queue say the same.
func TestARefusalTakesThePrefixBack(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		code   string
		change func(*testing.T, *brokertest.Vhost) // what happens to the queue behind the relay's back
	}{
		"the binding is gone": {messaging.CodeUnroutable, func(t *testing.T, v *brokertest.Vhost) { v.Unbind(t, "e", "q", "k") }},
		"it has a limit now": {messaging.CodeNacked, func(t *testing.T, v *brokertest.Vhost) {
			v.Policy(t, "limit", "^q$", map[string]any{"max-length": 1, "overflow": "reject-publish"})
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v := bound(t)
			a, p := open(t, configFor(t, v), to("e", "k"))
			brokertest.Eventually(t, patience, "the queue was seen", func() bool { return p.KeyPrefix(to("e", "k")) })
			wantConfirmed(t, publish(t, p, to("e", "k"), message("a", "{}"))...)
			c.change(t, v)
			brokertest.Eventually(t, patience, "a message to be refused", func() bool {
				r := publish(t, p, to("e", "k"), message("a", "{}"))[0]
				return r.Failure != nil && r.Failure.Code == c.code
			})
			if p.KeyPrefix(to("e", "k")) {
				t.Error("the prefix is promised still")
			}
			// What the API shows of a policy is some seconds old.
			brokertest.Eventually(t, patience, "a look to find that the prefix does not hold", func() bool {
				_, err := a.Capabilities(t.Context(), to("e", "k"))
				return err == nil && !p.KeyPrefix(to("e", "k"))
			})
		})
	}
}
