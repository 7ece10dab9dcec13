package brokertest

import (
	"bufio"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"strconv"
	"sync"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// The requests that the proxy looks into.
const (
	kafkaProduce         = 0
	kafkaMetadata        = 3
	kafkaFindCoordinator = 10
	kafkaDescribeCluster = 60
)

// kafkaCodec remembers what was asked, because an answer says neither its kind nor its version.
type kafkaCodec struct {
	p *Proxy

	mu    sync.Mutex
	asked map[uint32]kafkaRequest // by correlation id
}

type kafkaRequest struct{ key, version int16 }

func newKafkaCodec(p *Proxy) *kafkaCodec {
	return &kafkaCodec{p: p, asked: map[uint32]kafkaRequest{}}
}

func (c *kafkaCodec) next(d Direction, r *bufio.Reader) (unit, error) {
	head, err := r.Peek(4)
	if err != nil {
		return unit{}, err
	}
	size := binary.BigEndian.Uint32(head)
	if size < 4 || size > 1<<28 {
		return unit{}, errors.New("not a Kafka frame")
	}
	frame := make([]byte, 4+size)
	if _, err := io.ReadFull(r, frame); err != nil {
		return unit{}, err
	}
	if d == ToServer {
		return c.request(frame), nil
	}
	return c.response(frame), nil
}

func (c *kafkaCodec) request(frame []byte) unit {
	if len(frame) < 14 {
		return unit{bytes: frame}
	}
	request := kafkaRequest{
		key:     int16(binary.BigEndian.Uint16(frame[4:])),
		version: int16(binary.BigEndian.Uint16(frame[6:])),
	}
	id := binary.BigEndian.Uint32(frame[8:])
	c.mu.Lock()
	c.asked[id] = request
	c.mu.Unlock()
	u := unit{bytes: frame}
	if request.key == kafkaProduce {
		u.publish = &Publish{Bytes: frame, Topics: c.topics(request.version, frame), number: uint64(id)}
	}
	return u
}

// topics names the topics of a produce request, as far as its bytes can be read.
func (c *kafkaCodec) topics(version int16, frame []byte) []string {
	produce := kmsg.NewPtrProduceRequest()
	produce.SetVersion(version)
	body := 14 // behind length, key, version, correlation id and the length of the client's name
	if name := int16(binary.BigEndian.Uint16(frame[12:])); name > 0 {
		body += int(name)
	}
	if produce.IsFlexible() {
		body++ // no tagged fields
	}
	if body > len(frame) || produce.ReadFrom(frame[body:]) != nil {
		return nil
	}
	c.p.mu.Lock()
	defer c.p.mu.Unlock()
	var names []string
	for _, topic := range produce.Topics {
		if topic.Topic == "" {
			topic.Topic = c.p.topics[topic.TopicID]
		}
		names = append(names, topic.Topic)
	}
	return names
}

func (c *kafkaCodec) response(frame []byte) unit {
	id := binary.BigEndian.Uint32(frame[4:])
	c.mu.Lock()
	request, found := c.asked[id]
	delete(c.asked, id)
	c.mu.Unlock()
	if !found {
		return unit{bytes: frame}
	}
	u := unit{bytes: c.lead(request, frame)}
	if request.key == kafkaProduce {
		u.answers = func(number uint64) bool { return number == uint64(id) }
	}
	return u
}

// lead puts the proxy's addresses in the place of the brokers'. What it cannot read stays as it is.
func (c *kafkaCodec) lead(request kafkaRequest, frame []byte) []byte {
	switch request.key {
	case kafkaProduce, kafkaMetadata, kafkaFindCoordinator, kafkaDescribeCluster:
	default:
		return frame
	}
	response := kmsg.ResponseForKey(request.key)
	response.SetVersion(request.version)
	body := 8
	if response.IsFlexible() {
		if len(frame) < 9 || frame[8] != 0 {
			return frame // tagged fields that no broker sends today
		}
		body++
	}
	if response.ReadFrom(frame[body:]) != nil || !c.rewrite(response) {
		return frame
	}
	changed := response.AppendTo(frame[:body:body])
	binary.BigEndian.PutUint32(changed, uint32(len(changed)-4))
	return changed
}

// rewrite reports whether the response names brokers.
func (c *kafkaCodec) rewrite(response kmsg.Response) bool {
	switch r := response.(type) {
	case *kmsg.ProduceResponse: // names them when a partition has moved
		for i := range r.Brokers {
			c.replace(&r.Brokers[i].Host, &r.Brokers[i].Port)
		}
		return len(r.Brokers) > 0
	case *kmsg.MetadataResponse:
		for i := range r.Brokers {
			c.replace(&r.Brokers[i].Host, &r.Brokers[i].Port)
		}
		c.p.mu.Lock()
		defer c.p.mu.Unlock()
		for _, topic := range r.Topics {
			if topic.Topic != nil {
				c.p.topics[topic.TopicID] = *topic.Topic
			}
		}
	case *kmsg.FindCoordinatorResponse:
		c.replace(&r.Host, &r.Port)
		for i := range r.Coordinators {
			c.replace(&r.Coordinators[i].Host, &r.Coordinators[i].Port)
		}
	case *kmsg.DescribeClusterResponse:
		for i := range r.Brokers {
			c.replace(&r.Brokers[i].Host, &r.Brokers[i].Port)
		}
	}
	return true
}

func (c *kafkaCodec) replace(host *string, port *int32) {
	if *host == "" || *port <= 0 {
		return // no coordinator is known
	}
	addr, err := c.p.front(net.JoinHostPort(*host, strconv.Itoa(int(*port))))
	if err != nil {
		return
	}
	ownHost, ownPort, _ := net.SplitHostPort(addr)
	number, _ := strconv.ParseInt(ownPort, 10, 32)
	*host, *port = ownHost, int32(number)
}
