package kafka

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// produceCall is a produce request that knows whether bytes of it may have left.
//
// The library asks for a request's bytes once a connection stands, just before it
// writes them; after the write it calls the write hook, on the same goroutine, one
// request of a broker after the other. So a call is begun when its bytes were asked
// for, unless the hook then reports that the connection took none.
type produceCall struct {
	kmsg.ProduceRequest
	node   int32
	writes *writeWatch
	begun  atomic.Bool
}

// lastVersionByName is the newest version that names topics instead of giving their
// ids, so that a topic that was deleted and made anew is met without new metadata.
const lastVersionByName = 12

func newProduceCall(w *writeWatch, node int32, wait time.Duration, shots []*shot) *produceCall {
	c := &produceCall{node: node, writes: w}
	c.Acks = -1 // all in-sync replicas; nothing weaker exists here
	c.TimeoutMillis = int32(wait.Milliseconds())
	at := map[string]int{}
	for _, s := range shots {
		i, ok := at[s.topic]
		if !ok {
			i = len(c.Topics)
			at[s.topic] = i
			t := kmsg.NewProduceRequestTopic()
			t.Topic = s.topic
			c.Topics = append(c.Topics, t)
		}
		p := kmsg.NewProduceRequestTopicPartition()
		p.Partition = s.partition
		p.Records = s.batch
		c.Topics[i].Partitions = append(c.Topics[i].Partitions, p)
	}
	return c
}

// MaxVersion bounds the negotiated version.
func (*produceCall) MaxVersion() int16 { return lastVersionByName }

// AppendTo is where the library asks for the bytes.
func (c *produceCall) AppendTo(dst []byte) []byte {
	c.begun.Store(true)
	c.writes.writing(c)
	return c.ProduceRequest.AppendTo(dst)
}

// writeWatch takes back that a call was begun when its connection took no byte.
type writeWatch struct {
	mu  sync.Mutex
	now map[int32]*produceCall // what is being written to each broker
}

var _ kgo.HookBrokerWrite = (*writeWatch)(nil)

func (w *writeWatch) writing(c *produceCall) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.now == nil {
		w.now = map[int32]*produceCall{}
	}
	w.now[c.node] = c
}

// OnBrokerWrite is the library's hook after each write.
func (w *writeWatch) OnBrokerWrite(to kgo.BrokerMetadata, key int16, bytes int, _, _ time.Duration, err error) {
	if key != 0 {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	c := w.now[to.NodeID]
	delete(w.now, to.NodeID)
	if c != nil && err != nil && bytes == 0 {
		c.begun.Store(false)
	}
}
