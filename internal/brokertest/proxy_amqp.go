package brokertest

import (
	"bufio"
	"encoding/binary"
	"errors"
	"io"
	"sync"
)

// What the proxy knows of AMQP 0-9-1: frame types, and the methods that publish and confirm.
const (
	frameMethod = 1
	frameHeader = 2
	frameBody   = 3

	channelOpen   = 20<<16 | 10
	basicPublish  = 60<<16 | 40
	basicAck      = 60<<16 | 80
	basicNack     = 60<<16 | 120
	confirmSelect = 85<<16 | 10
)

type amqpCodec struct {
	greeted bool // touched by the goroutine that reads the client alone

	mu       sync.Mutex
	channels map[uint16]*amqpChannel
}

// amqpChannel numbers the messages of a channel in confirm mode as the broker does: from 1.
type amqpChannel struct {
	confirms bool
	tag      uint64
	current  *Publish
	left     uint64 // bytes of its body still to come
}

func newAMQPCodec() *amqpCodec { return &amqpCodec{channels: map[uint16]*amqpChannel{}} }

func (c *amqpCodec) next(d Direction, r *bufio.Reader) (unit, error) {
	if d == ToServer && !c.greeted {
		c.greeted = true
		greeting := make([]byte, 8)
		_, err := io.ReadFull(r, greeting)
		return unit{bytes: greeting}, err
	}
	head, err := r.Peek(7)
	if err != nil {
		return unit{}, err
	}
	size := binary.BigEndian.Uint32(head[3:])
	if size > 1<<27 {
		return unit{}, errors.New("not an AMQP frame")
	}
	frame := make([]byte, 7+size+1)
	if _, err := io.ReadFull(r, frame); err != nil {
		return unit{}, err
	}
	u := unit{bytes: frame}
	c.mu.Lock()
	defer c.mu.Unlock()
	if d == ToServer {
		u.publish = c.toServer(frame)
	} else {
		u.answers = c.toClient(frame)
	}
	return u, nil
}

func split(frame []byte) (kind byte, channel uint16, payload []byte) {
	return frame[0], binary.BigEndian.Uint16(frame[1:]), frame[7 : len(frame)-1]
}

// toServer follows publishes and returns one when this frame completes it.
func (c *amqpCodec) toServer(frame []byte) *Publish {
	kind, number, payload := split(frame)
	ch := c.channels[number]
	if ch == nil {
		ch = &amqpChannel{}
		c.channels[number] = ch
	}
	switch kind {
	case frameMethod:
		c.method(number, ch, payload)
		return nil
	case frameHeader:
		if ch.current == nil || len(payload) < 12 {
			return nil
		}
		ch.left = binary.BigEndian.Uint64(payload[4:])
	case frameBody:
		if ch.current == nil {
			return nil
		}
		ch.current.Body = append(ch.current.Body, payload...)
		ch.left -= min(ch.left, uint64(len(payload)))
	default:
		return nil
	}
	if ch.left > 0 {
		return nil
	}
	published := ch.current
	ch.current = nil
	published.Bytes = frame
	if ch.confirms {
		ch.tag++
		published.number = confirmNumber(number, ch.tag)
	}
	return published
}

func (c *amqpCodec) method(number uint16, ch *amqpChannel, payload []byte) {
	if len(payload) < 4 {
		return
	}
	switch binary.BigEndian.Uint32(payload) {
	case channelOpen:
		c.channels[number] = &amqpChannel{}
	case confirmSelect:
		ch.confirms = true
	case basicPublish:
		exchange, rest := shortString(payload[min(6, len(payload)):])
		key, _ := shortString(rest)
		ch.current = &Publish{Channel: number, Exchange: exchange, RoutingKey: key}
	}
}

// toClient tells which publishes a frame confirms, positively or negatively.
func (c *amqpCodec) toClient(frame []byte) func(uint64) bool {
	kind, channel, payload := split(frame)
	if kind != frameMethod || len(payload) < 13 {
		return nil
	}
	if method := binary.BigEndian.Uint32(payload); method != basicAck && method != basicNack {
		return nil
	}
	tag := confirmNumber(channel, binary.BigEndian.Uint64(payload[4:]))
	if multiple := payload[12]&1 != 0; multiple {
		first := confirmNumber(channel, 1)
		return func(number uint64) bool { return number >= first && number <= tag }
	}
	return func(number uint64) bool { return number == tag }
}

// confirmNumber joins a channel and a delivery tag; tags stay far below 2^48.
func confirmNumber(channel uint16, tag uint64) uint64 { return uint64(channel)<<48 | tag }

func shortString(b []byte) (s string, rest []byte) {
	if len(b) == 0 || len(b) < 1+int(b[0]) {
		return "", nil
	}
	return string(b[1 : 1+int(b[0])]), b[1+int(b[0]):]
}
