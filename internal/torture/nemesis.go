package torture

import (
	"cmp"
	"context"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/backend-skeleton/relay/internal/brokertest"
)

// event is the begin or the end of a fault.
type event struct {
	at time.Duration
	do func()
}

// torment runs a plan until it is over or after a step it is enough, on the test's own goroutine, and gives the number of
// faults of each kind.
func (w *world) torment(ctx context.Context, plan Plan, enough func() bool) map[string]int {
	done := map[string]int{}
	for _, s := range plan {
		start := time.Now()
		events := []event{{s.Rest, func() {}}}
		for _, f := range s.Faults {
			begin, end := w.fault(f)
			done[string(f.Kind)+" "+string(f.Target)]++
			events = append(events, event{s.Rest + f.After, begin}, event{s.Rest + f.After + f.For, end})
		}
		slices.SortStableFunc(events, func(a, b event) int { return cmp.Compare(a.at, b.at) })
		for _, e := range events {
			select {
			case <-ctx.Done():
			case <-time.After(e.at - time.Since(start)):
			}
			e.do() // also when the run is over: whatever was broken is mended
		}
		if ctx.Err() != nil || enough() {
			break
		}
	}
	return done
}

// fault gives what breaks something and what mends it.
func (w *world) fault(f Fault) (begin, end func()) {
	switch f.Target {
	case Relay:
		return w.process(f)
	case Link:
		return network(w.t, f.Kind, w.members[f.Number].link)
	case Database:
		var links []*brokertest.Proxy
		for _, m := range w.members {
			links = append(links, m.link)
		}
		return network(w.t, f.Kind, links...)
	case Kafka:
		return network(w.t, f.Kind, w.kafka)
	case PostgresServer:
		return server(w.own.postgres, f.Kind)
	case KafkaServer:
		return server(w.own.kafka, f.Kind)
	case RabbitServer:
		return server(w.own.rabbit, f.Kind)
	case Rows:
		return w.lockRows(f.For)
	}
	if f.Kind == Unbind {
		return w.unbind, w.bind
	}
	return network(w.t, f.Kind, w.rabbit)
}

// server strikes a server itself. One that was killed comes back on its ports, with all that it had confirmed.
func server(s *brokertest.Server, kind Kind) (begin, end func()) {
	if kind == Pause {
		return func() { s.Pause(1) }, func() { s.Resume(1) }
	}
	return func() { s.Kill(1) }, func() { s.StartNode(1) }
}

func (w *world) process(f Fault) (begin, end func()) {
	struck := w.members
	if f.Number != All {
		struck = w.members[f.Number : f.Number+1]
	}
	each := func(do func(*member)) func() {
		return func() {
			for _, m := range struck {
				do(m)
			}
		}
	}
	switch f.Kind {
	case Pause:
		return each(func(m *member) { m.signal(syscall.SIGSTOP) }), each(func(m *member) { m.signal(syscall.SIGCONT) })
	case Stop:
		return each(func(m *member) { m.end(syscall.SIGTERM) }), each((*member).start)
	default:
		return each(func(m *member) { m.end(syscall.SIGKILL) }), each((*member).start)
	}
}

// network breaks connections that go through proxies.
func network(t testing.TB, kind Kind, proxies ...*brokertest.Proxy) (begin, end func()) {
	each := func(do func(*brokertest.Proxy)) func() {
		return func() {
			for _, p := range proxies {
				do(p)
			}
		}
	}
	switch kind {
	case Down:
		return each((*brokertest.Proxy).Down), each(func(p *brokertest.Proxy) { p.Up(t) })
	case Stall:
		return each(func(p *brokertest.Proxy) { p.Stall() }), each((*brokertest.Proxy).Resume)
	case Silence:
		return each(func(p *brokertest.Proxy) { p.Stall(brokertest.ToClient) }), each((*brokertest.Proxy).Resume)
	case Deaf:
		return each((*brokertest.Proxy).DropReplies), each(func(p *brokertest.Proxy) { p.Cut(); p.Pass() })
	case Swallow:
		return each(func(p *brokertest.Proxy) { p.Drop(brokertest.ToServer) }), each(func(p *brokertest.Proxy) { p.Cut(); p.Pass() })
	case Delay:
		return each(func(p *brokertest.Proxy) { p.Delay(150 * time.Millisecond) }), each(func(p *brokertest.Proxy) { p.Delay(0) })
	default:
		return each(func(p *brokertest.Proxy) { p.Cut() }), func() {}
	}
}

// lockRows holds the locks of rows that are not published yet, as an operator's session does. The lock ends by itself,
// also when the session cannot be reached any more.
func (w *world) lockRows(d time.Duration) (begin, end func()) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(w.t.Context()), d+5*time.Second)
	done := make(chan struct{})
	begin = func() {
		go func() {
			defer close(done)
			tx, err := w.db.Begin(ctx)
			if err != nil {
				return // the database is away
			}
			defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }()
			if _, err := tx.Exec(ctx, `select from messaging_outbox where status <> 'PUBLISHED' limit 200 for update skip locked`); err != nil {
				return
			}
			select {
			case <-ctx.Done():
			case <-time.After(d):
			}
		}()
	}
	return begin, func() { cancel(); <-done }
}
