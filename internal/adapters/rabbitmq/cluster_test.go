package rabbitmq

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/backend-skeleton/relay/internal/brokertest"
	"github.com/backend-skeleton/relay/messaging"
)

// A cluster of three: the queue's leader dies in mid-flow, then the majority.
func TestEvidence_Cluster(t *testing.T) {
	brokertest.FullTier(t)
	server := brokertest.StartRabbitMQ(t, brokertest.RabbitOptions{Nodes: 3})
	v := brokertest.NewVhostOn(t, server.Env("RABBITMQ_URL_1"), server.Env("RABBITMQ_API_1"))
	v.Exchange(t, "e", "direct")
	v.Queue(t, "q", map[string]any{"x-quorum-initial-group-size": 3})
	v.Bind(t, "e", "q", "k")
	leader := leaderOf(t, v, "q")

	// Publisher and capture live on a node that stays.
	home, address := 1, v.URL()
	c := configFor(t, v)
	if leader == home {
		home = 2
		moved := brokertest.NewVhostOn(t, server.Env("RABBITMQ_URL_2"), server.Env("RABBITMQ_API_2"))
		c.Seeds = []string{moved.Addr()}
		api, err := url.Parse(moved.API())
		if err != nil {
			t.Fatal("the management API's address is not a URL")
		}
		c.Management.URL = api.Scheme + "://" + api.Host
		address = v.URLVia(moved.Addr())
	}
	got := brokertest.CaptureRabbit(t, address, "q")
	_, p := open(t, c, to("e", "k"))
	brokertest.Eventually(t, patience, "the queue was seen", func() bool { return p.KeyPrefix(to("e", "k")) })

	const keys = 5
	ms := messages(10_000, func(i int) string { return string(rune('a' + i%keys)) })
	results := newVerdicts(t, len(ms))
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	go p.Publish(ctx, to("e", "k"), ms, results.done)
	brokertest.Eventually(t, patience, "a fifth is confirmed", func() bool { return results.missing() < len(ms)*4/5 })
	server.Kill(leader)
	rs := results.wait(2 * patience)
	wantConfirmed(t, rs...) // another node leads now; it costs the publisher only time
	ids := make([]string, len(ms))
	for i := range ms {
		ids[i] = ms[i].ID.String()
	}
	first := map[string]int{}
	for at, m := range got.WaitFor(t, patience, ids...) {
		if _, again := first[m.ID]; !again {
			first[m.ID] = at
		}
	}
	for i := keys; i < len(ms); i++ {
		if first[ids[i-keys]] > first[ids[i]] {
			t.Errorf("message %d came before its predecessor", i)
		}
	}

	// Without a majority nothing is answered, and nothing is claimed; the answer comes
	// when a second node is back.
	server.Kill(6 - home - leader)
	late := brief(t, p, 2*time.Second, to("e", "k"), message("", "{}"))
	if late.missing() != 1 {
		t.Errorf("%v without a majority", late.wait(0))
	}
	server.StartNode(leader)
	r := late.wait(2 * patience)[0]
	want(t, r, messaging.Confirmed, "", messaging.Transmitted)
}

// leaderOf is the number of the node that leads a quorum queue.
func leaderOf(t *testing.T, v *brokertest.Vhost, queue string) int {
	t.Helper()
	var view struct{ Leader string }
	if err := json.Unmarshal(v.Call(t, http.MethodGet, "queues/"+v.Name+"/"+queue, nil), &view); err != nil {
		t.Fatal(err)
	}
	number, _, _ := strings.Cut(strings.TrimPrefix(view.Leader, "rabbit"), "@")
	if len(number) != 1 {
		t.Fatalf("the leader is %q", view.Leader)
	}
	return int(number[0] - '0')
}
