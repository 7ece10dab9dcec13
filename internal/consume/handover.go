package consume

import (
	"context"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"github.com/backend-skeleton/relay/messaging"
	"github.com/backend-skeleton/relay/messaging/transport"
)

// handover is a message on its way to a retry stage, a dead-letter queue or a parking place. The source is settled when the
// broker has confirmed it, and not before.
type handover struct {
	i       *item
	to      transport.Endpoint
	m       transport.Message
	failure messaging.Failure
	tries   int
}

// handoverPolicy paces a hand-over that was not confirmed. It goes out under the same id until it is.
var handoverPolicy = messaging.RetryPolicy{InitialDelay: 200 * time.Millisecond, MaxDelay: 15 * time.Second, Multiplier: 2, Jitter: 0.5}

// handoverTimeout bounds how long a hand-over waits for a place in the adapter.
const handoverTimeout = 10 * time.Second

// handOver takes over a delivery. Its ordering unit stands still meanwhile.
func (k *Consumer) handOver(i *item, to transport.Endpoint, m transport.Message, f messaging.Failure, outcome string) {
	i.outcome = outcome
	i.broken = outcome != outcomeMoved && k.c.strict() && k.exclusive(i.l)
	if k.exclusive(i.l) {
		i.l.held++
	}
	k.handNext.push(&handover{i: i, to: to, m: m, failure: f})
}

// handOn sends what may be sent.
func (k *Consumer) handOn() {
	for k.handing < k.c.Handovers && k.handNext.len() > 0 {
		h := k.handNext.pop()
		if h.i.u.gone {
			k.handoverOver(h)
			k.unsettled(h.i)
			continue
		}
		k.handing++
		k.work.Go(func() { k.publish(h) })
	}
}

// publish waits for the answer, however long the adapter needs for it: while it is out, the message is not sent again.
func (k *Consumer) publish(h *handover) {
	ctx, cancel := context.WithTimeout(k.living, handoverTimeout)
	defer cancel()
	answered := make(chan messaging.PublishResult, 1)
	k.c.Publisher.Publish(ctx, h.to, []transport.Message{h.m}, func(_ int, r messaging.PublishResult) {
		select {
		case answered <- r:
		default: // an adapter that answers twice
		}
	})
	var r messaging.PublishResult
	select {
	case r = <-answered:
	case <-k.living.Done():
		r.Completion = messaging.Ambiguous
	}
	k.box.post(func() { k.handedOver(h, r) })
}

// handedOver settles the source, or tries again.
func (k *Consumer) handedOver(h *handover, r messaging.PublishResult) {
	k.handing--
	k.c.Hooks.handedOver(h.to.Name, h.i.outcome, r.Completion, h.failure)
	if r.Completion == messaging.Confirmed {
		k.handoverOver(h)
		k.finish(h.i)
		return
	}
	u := h.i.u
	if h.tries++; h.tries == 1 {
		u.failing++
		k.pause(u, reasonHandover)
		k.steer(u)
	}
	k.handingLater++
	k.after(Delay(handoverPolicy, h.tries, 1-rand.Float64()), func() {
		k.handingLater--
		k.handNext.push(h)
	})
}

// handoverOver lets go what a hand-over has held.
func (k *Consumer) handoverOver(h *handover) {
	u := h.i.u
	if h.tries > 0 {
		if u.failing--; u.failing == 0 {
			k.resume(u, reasonHandover)
			k.steer(u)
		}
	}
	if k.exclusive(h.i.l) {
		k.letGo(h.i.l)
	}
	k.wakeAll(u)
}

// stampLayout is the wire contract's form of a time.
const stampLayout = "2006-01-02T15:04:05.000000Z"

func stamp(t time.Time) string { return t.UTC().Format(stampLayout) }

// toStage is a delivery on its way to a retry stage. Id, payload and every foreign header stay as they were.
func (k *Consumer) toStage(i *item, delay time.Duration) transport.Message {
	now := time.Now()
	return rewritten(&i.d.Message, nil, []transport.Header{
		text(transport.HeaderForConsumer, string(k.c.Name)),
		text(transport.HeaderRetryAttempt, strconv.Itoa(i.attempt)),
		text(transport.HeaderRetryDueAt, stamp(now.Add(delay))),
		text(transport.HeaderFirstFailureAt, i.first),
		text(transport.HeaderLastFailureAt, stamp(now)),
	})
}

// toDeadLetters is a delivery on its way to a dead-letter queue or parking place. Where it came from first, and when it
// failed first, is written once, so that nothing grows and nothing is forgotten over repeated hops.
func (k *Consumer) toDeadLetters(i *item, f messaging.Failure) transport.Message {
	m := &i.d.Message
	once := func(name, value string) transport.Header {
		if had := headerOf(m, name); had != "" {
			value = had
		}
		return text(name, value)
	}
	add := []transport.Header{
		once(transport.HeaderDLQSource, string(k.c.Endpoint.Name)+"/"+string(k.c.Name)),
		text(transport.HeaderDLQAttempts, strconv.Itoa(i.attempt)),
		text(transport.HeaderDLQCategory, f.Category.String()),
		text(transport.HeaderDLQCode, f.Code),
		once(transport.HeaderFirstFailureAt, i.first),
		text(transport.HeaderLastFailureAt, stamp(time.Now())),
	}
	if position := once(transport.HeaderDLQPosition, i.d.Position.Text); len(position.Value) > 0 {
		add = append(add, position)
	}
	return rewritten(m, []string{transport.HeaderForConsumer, transport.HeaderRetryAttempt, transport.HeaderRetryDueAt}, add)
}

// rewritten copies a message and replaces headers.
func rewritten(m *transport.Message, without []string, add []transport.Header) transport.Message {
	out := *m
	out.Delay, out.ReplyTo, out.PublishedAt = 0, "", time.Time{}
	out.Header = make([]transport.Header, 0, len(m.Header)+len(add))
	for _, h := range m.Header {
		if !slices.Contains(without, h.Name) && !slices.ContainsFunc(add, func(a transport.Header) bool { return a.Name == h.Name }) {
			out.Header = append(out.Header, h)
		}
	}
	out.Header = append(out.Header, add...)
	return out
}

func text(name, value string) transport.Header {
	return transport.Header{Name: name, Value: []byte(value)}
}
