package brokertest

import (
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// behindProxy is a queue in a virtual host that is reached through a proxy, with a channel in confirm mode.
func behindProxy(t *testing.T) (p *Proxy, vhost *Vhost, ch *amqp.Channel) {
	t.Helper()
	vhost = NewVhost(t)
	vhost.Queue(t, "orders", nil)
	p = NewAMQPProxy(t, vhost.Addr())
	_, ch = rabbit(t, vhost.URLVia(p.Addr()))
	return p, vhost, ch
}

// closed waits for the end of a channel.
func closed(t *testing.T, ch *amqp.Channel) {
	t.Helper()
	Eventually(t, 10*time.Second, "the client's channel is closed", ch.IsClosed)
}

func TestAMQPTrapCutBefore(t *testing.T) {
	t.Parallel()
	p, vhost, ch := behindProxy(t)
	confirmed(t, send(t, ch, "", "orders", 1))
	trap := p.Trap(CutBefore, 1, func(m *Publish) bool { return m.RoutingKey == "orders" && string(m.Body) == "body 2" })
	confirmation := send(t, ch, "", "orders", 2)
	trap.Wait(t, 1, 10*time.Second)
	closed(t, ch)
	if confirmed(t, confirmation) {
		t.Error("a message that never left is confirmed")
	}
	if n := vhost.Ready(t, "orders"); n != 1 {
		t.Errorf("%d messages stored, want 1", n)
	}
	_, ch = rabbit(t, vhost.URLVia(p.Addr()))
	if !confirmed(t, send(t, ch, "", "orders", 2)) {
		t.Error("the trap strikes more than once")
	}
}

func TestAMQPTrapCutAtAnswer(t *testing.T) {
	t.Parallel()
	vhost := cutAfterSending(t, CutAtAnswer)
	Eventually(t, 10*time.Second, "both messages are stored", func() bool { return vhost.Ready(t, "orders") == 2 })
}

// RabbitMQ may hear of the end before its channel has taken the message in, and then drops it: stored or not, nobody knows.
func TestAMQPTrapCutAfter(t *testing.T) {
	t.Parallel()
	vhost := cutAfterSending(t, CutAfter)
	if n := vhost.Ready(t, "orders"); n != 1 && n != 2 {
		t.Errorf("%d messages stored, want 1 or 2", n)
	}
}

// cutAfterSending sends two messages and cuts the connection at the second, whose confirm must not come.
func cutAfterSending(t *testing.T, fault Fault) *Vhost {
	t.Helper()
	p, vhost, ch := behindProxy(t)
	if !confirmed(t, send(t, ch, "", "orders", 1)) {
		t.Fatal("the first message is not confirmed")
	}
	trap := p.Trap(fault, 1, nil)
	confirmation := send(t, ch, "", "orders", 2)
	trap.Wait(t, 1, 10*time.Second)
	closed(t, ch)
	if confirmed(t, confirmation) {
		t.Error("confirmed though the answer was lost")
	}
	return vhost
}

func TestAMQPTrapSwallowsOneConfirm(t *testing.T) {
	t.Parallel()
	p, vhost, ch := behindProxy(t)
	trap := p.Trap(SwallowAnswer, 1, nil)
	lost := send(t, ch, "", "orders", 1)
	trap.Wait(t, 1, 10*time.Second)
	if !confirmed(t, send(t, ch, "", "orders", 2)) || ch.IsClosed() {
		t.Error("the connection does not go on")
	}
	if lost.Acked() {
		t.Error("the swallowed confirm arrived")
	}
	if n := vhost.Ready(t, "orders"); n != 2 {
		t.Errorf("%d messages stored, want 2", n)
	}
}

func TestAMQPTrapHoldsConfirms(t *testing.T) {
	t.Parallel()
	p, _, ch := behindProxy(t)
	trap := p.Trap(HoldAnswer, -1, nil)
	var confirmations []*amqp.DeferredConfirmation
	for i := range 20 { // the broker may answer several at once
		confirmations = append(confirmations, send(t, ch, "", "orders", i))
	}
	trap.Wait(t, 1, 10*time.Second)
	for i, c := range confirmations {
		if c.Acked() {
			t.Errorf("message %d is confirmed though its answer is held", i)
		}
	}
	trap.Release()
	for i, c := range confirmations {
		if !confirmed(t, c) {
			t.Errorf("message %d is not confirmed after release", i)
		}
	}
	trap.Wait(t, 20, time.Second)
}
