package kafka

import (
	"context"
	"math"
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// noProducer stands for a partition without a producer id yet.
const noProducer = -1

// session holds the producer id under which partitions number their batches. An id
// that a broker refuses on one partition is replaced for that partition alone: a
// broker keeps a producer's state per partition.
type session struct {
	adapter *Adapter
	turn    chan struct{} // held while an id is asked for
	id      atomic.Int64  // the newest, plus one; 0: none yet
}

// start gives the position for a partition whose id, refused, is given: the newest
// id if that is another one, else a new one from the cluster.
func (s *session) start(ctx context.Context, refused int64) (position, *cause) {
	select {
	case s.turn <- struct{}{}:
		defer func() { <-s.turn }()
	case <-ctx.Done():
		return position{}, causeNotSent
	}
	if id := s.id.Load() - 1; id != noProducer && id != refused {
		return position{id: id}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, metadataWait)
	defer cancel()
	req := kmsg.NewPtrInitProducerIDRequest()
	req.TransactionTimeoutMillis = 60_000 // required, of no effect without a transactional id
	resp, err := req.RequestWith(ctx, s.adapter.client)
	if err == nil {
		err = kerr.ErrorForCode(resp.ErrorCode)
	}
	if err != nil {
		if c := connectCause(err); c != nil {
			return position{}, c
		}
		return position{}, causeNotSent
	}
	s.id.Store(resp.ProducerID + 1)
	if refused != noProducer {
		s.adapter.log.Warn("producer session renewed")
	}
	return position{id: resp.ProducerID, epoch: resp.ProducerEpoch}, nil
}

// fence moves the position to a higher epoch, which begins at sequence 0: the broker
// refuses what is still under way under the former one. False: the epochs of the id
// are used up.
func (p *position) fence() bool {
	if p.id == noProducer || p.epoch == math.MaxInt16 {
		return false
	}
	p.epoch++
	p.next = 0
	return true
}
