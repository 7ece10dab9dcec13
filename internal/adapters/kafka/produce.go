package kafka

import (
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// produceCall is a produce request that remembers whether its bytes were taken. The
// library asks for them once a connection stands and just before it writes: until
// then nothing can have left.
type produceCall struct {
	kmsg.ProduceRequest
	taken atomic.Bool
}

// lastVersionByName is the newest version that names topics instead of giving their
// ids, so that a topic that was deleted and made anew is met without new metadata.
const lastVersionByName = 12

func newProduceCall(wait time.Duration, shots []*shot) *produceCall {
	c := &produceCall{}
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

// AppendTo is where the bytes are taken.
func (c *produceCall) AppendTo(dst []byte) []byte {
	c.taken.Store(true)
	return c.ProduceRequest.AppendTo(dst)
}
