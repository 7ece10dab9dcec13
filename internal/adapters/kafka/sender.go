package kafka

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	// maxInFlight is how many produce requests one broker may owe an answer for. A
	// broker works them off one by one: two keep it busy, and what waits meanwhile
	// goes together in the next. Of one partition at most one batch is in flight.
	maxInFlight = 2
	// maxRequestBytes is where a request of several batches ends.
	maxRequestBytes = 8 << 20
)

// shot is one write of one partition's batch.
type shot struct {
	topic     string
	partition int32
	batch     []byte
	// patience ends when the write should not begin any more; it does not end a write
	// that was begun.
	patience context.Context
	// until ends the wait for an answer, closing the connection.
	until  time.Time
	answer chan answer // gets exactly one
}

// answer is what one write brought.
type answer struct {
	// begun tells whether bytes may have left.
	begun bool
	// err is set where no broker's answer for the partition was read.
	err  error
	part kmsg.ProduceResponseTopicPartition
}

// sender joins the batches for one broker into produce requests. The wait is part
// of a request, so destinations with another request timeout have another sender.
type sender struct {
	pub  *Publisher
	node int32
	wait time.Duration

	mu      sync.Mutex
	waiting []*shot
	flying  int
}

// send returns when the write's outcome is known or the shot's time is over.
func (s *sender) send(sh *shot) answer {
	sh.answer = make(chan answer, 1)
	s.mu.Lock()
	s.waiting = append(s.waiting, sh)
	s.launch()
	s.mu.Unlock()
	return <-sh.answer
}

// launch starts requests while there is something to send and the broker is not
// owing too much. Called locked.
func (s *sender) launch() {
	for s.flying < maxInFlight && len(s.waiting) > 0 {
		n, size := 0, 0
		for ; n < len(s.waiting); n++ {
			size += len(s.waiting[n].batch)
			if n > 0 && size > maxRequestBytes {
				break
			}
		}
		shots := append([]*shot(nil), s.waiting[:n]...)
		rest := copy(s.waiting, s.waiting[n:])
		clear(s.waiting[rest:])
		s.waiting = s.waiting[:rest]
		s.flying++
		s.pub.work.Go(func() {
			s.fire(shots)
			s.mu.Lock()
			s.flying--
			s.launch()
			s.mu.Unlock()
		})
	}
}

// fire writes one request and hands out what came back. It never tries again: only
// the partition knows whether that is safe.
func (s *sender) fire(shots []*shot) {
	call := newProduceCall(&s.pub.adapter.writes, s.node, s.wait, shots)
	until := shots[0].until
	for _, sh := range shots[1:] {
		if sh.until.After(until) {
			until = sh.until
		}
	}
	ctx, cancel := context.WithDeadline(s.pub.ctx, until)
	defer cancel()

	// A request that was not begun in time for any of its batches is called off.
	var patient atomic.Int32
	patient.Store(int32(len(shots)))
	for _, sh := range shots {
		stop := context.AfterFunc(sh.patience, func() {
			if patient.Add(-1) == 0 && !call.begun.Load() {
				cancel()
			}
		})
		defer stop()
	}

	resp, err := s.pub.adapter.client.Broker(int(s.node)).Request(ctx, call)
	answers := map[string]map[int32]kmsg.ProduceResponseTopicPartition{}
	if r, ok := resp.(*kmsg.ProduceResponse); ok && err == nil {
		for _, t := range r.Topics {
			of := answers[t.Topic]
			if of == nil {
				of = make(map[int32]kmsg.ProduceResponseTopicPartition, len(t.Partitions))
				answers[t.Topic] = of
			}
			for _, p := range t.Partitions {
				of[p.Partition] = p
			}
		}
	}
	for _, sh := range shots {
		a := answer{begun: call.begun.Load(), err: err}
		if err == nil {
			var ok bool
			if a.part, ok = answers[sh.topic][sh.partition]; !ok {
				a.err = errNoAnswer
			}
		}
		sh.answer <- a
	}
}
