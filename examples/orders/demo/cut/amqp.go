package cut

import (
	"encoding/binary"
	"errors"
	"io"
)

// AMQP opens a proxy to a RabbitMQ node and returns it with its address. What it loses is a publisher confirm.
func AMQP(upstream string) (*Proxy, string, error) {
	p := &Proxy{protocol: amqp{}}
	addr, err := p.listen(upstream)
	return p, addr, err
}

type amqp struct{}

func (amqp) requests(client io.Reader, broker io.Writer, _ *conversation) error {
	_, err := io.Copy(broker, client)
	return err
}

// answers reads frame by frame: type, channel, size, payload, end mark.
func (amqp) answers(broker io.Reader, client io.Writer, c *conversation) error {
	const head, methodFrame, limit = 7, 1, 64 << 20
	for {
		frame := make([]byte, head, 4096)
		if _, err := io.ReadFull(broker, frame); err != nil {
			return err
		}
		size := binary.BigEndian.Uint32(frame[3:])
		if size > limit {
			return errors.New("frame out of bounds")
		}
		frame = append(frame, make([]byte, size+1)...)
		if _, err := io.ReadFull(broker, frame[head:]); err != nil {
			return err
		}
		if frame[0] == methodFrame && isBasicAck(frame[head:]) && c.proxy.loses() {
			return errCut
		}
		if _, err := client.Write(frame); err != nil {
			return err
		}
	}
}

// isBasicAck recognises the method that confirms a publish, by class and method number.
func isBasicAck(payload []byte) bool {
	const basic, ack = 60, 80
	return len(payload) >= 4 && binary.BigEndian.Uint16(payload) == basic && binary.BigEndian.Uint16(payload[2:]) == ack
}
