package acceptance

import (
	"net/url"
	"testing"
	"time"

	"github.com/backend-skeleton/relay/internal/brokertest"
)

// managed lets the relay see the queues of the world's RabbitMQ, so that a key may have more than one message on its way.
func (w *world) managed() {
	w.t.Helper()
	api, err := url.Parse(w.vhost.API())
	if err != nil {
		w.t.Fatal("the management API has no address")
	}
	w.messaging()["brokers"].(m)["rabbit"].(m)["management"] = m{"url": api.Scheme + "://" + api.Host, "identity": "rabbit"}
}

// A queue that refuses what does not fit breaks no order: of each key one message is on its way, and what was refused goes
// first when there is room. The queue that refuses nothing takes whole runs of a key.
func TestFleet_AFullQueueKeepsTheOrder(t *testing.T) {
	t.Parallel()
	w := newWorld(t, withRabbit(false))
	w.unhurried()
	w.managed()
	w.set("relay", m{"attempts": 1000, "breaker": m{"failures": 1000}, "backoff": m{"initial": "50ms", "max": "200ms"}})
	w.destinationFile(rabbitDestination)["guarantees"] = m{"ordering": "KEY"}
	w.vhost.Queue(t, "full.q", m{"x-max-length": 3, "x-overflow": "reject-publish"})
	w.vhost.Bind(t, "mail", "full.q", "full")
	full := w.destinationFile(rabbitDestination)
	const name = "rabbit.full"
	w.destination(name, m{
		"broker": "rabbit", "kind": "WORK_QUEUE", "physical": m{"exchange": "mail", "routing-key": "full", "queue": "full.q"},
		"guarantees": full["guarantees"], "producer": full["producer"],
	})
	ids := w.insert(name, 100, 3)
	others := w.insert(rabbitDestination, 300, 1)
	p := w.start()
	brokertest.Eventually(t, 30*time.Second, "the queue to refuse messages", func() bool {
		return w.number(`select count(*) from messaging_outbox where last_failure_code = 'NACKED'`) > 0
	})
	brokertest.Eventually(t, 30*time.Second, "the rows of the other queue to be sent", func() bool { return w.sent(others) == len(others) })
	capture := brokertest.CaptureRabbit(t, w.vhost.URL(), "full.q")
	w.published(time.Minute, 400)
	capture.WaitFor(t, 10*time.Second, ids...)
	once(t, capture, ids)
	inOrder(t, capture, ids)
	if n := p.metric("relay_overtook_total"); n != 0 {
		t.Errorf("%v rows overtook a refused one of their key", n)
	}
	inOrder(t, w.capture(rabbitDestination), others)
}
