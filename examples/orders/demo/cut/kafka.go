package cut

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"sync"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Kafka opens a proxy to a cluster and returns it with the address to start from. What it loses is the answer to a produce
// request. A client asks the cluster where its brokers are, so the answers to that are rewritten to ports of the proxy.
func Kafka(seed string) (*Proxy, string, error) {
	k := &kafka{ports: map[string]string{}}
	p := &Proxy{protocol: k}
	addr, err := k.portOf(p, seed)
	return p, addr, err
}

type kafka struct {
	mu    sync.Mutex
	ports map[string]string // broker's address -> the proxy's
}

// request is what an answer must be read with.
type request struct{ key, version int16 }

func (k *kafka) portOf(p *Proxy, upstream string) (string, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if addr, ok := k.ports[upstream]; ok {
		return addr, nil
	}
	addr, err := p.listen(upstream)
	if err == nil {
		k.ports[upstream] = addr
	}
	return addr, err
}

func (k *kafka) requests(client io.Reader, broker io.Writer, c *conversation) error {
	for {
		frame, err := readFrame(client)
		if err != nil {
			return err
		}
		if len(frame) < 8 {
			return errors.New("request without a header")
		}
		c.mu.Lock()
		c.pending[int32(binary.BigEndian.Uint32(frame[4:]))] = request{
			key: int16(binary.BigEndian.Uint16(frame)), version: int16(binary.BigEndian.Uint16(frame[2:])),
		}
		c.mu.Unlock()
		if err := writeFrame(broker, frame); err != nil {
			return err
		}
	}
}

func (k *kafka) answers(broker io.Reader, client io.Writer, c *conversation) error {
	for {
		frame, err := readFrame(broker)
		if err != nil {
			return err
		}
		if len(frame) < 4 {
			return errors.New("answer without a header")
		}
		id := int32(binary.BigEndian.Uint32(frame))
		c.mu.Lock()
		asked := c.pending[id]
		delete(c.pending, id)
		c.mu.Unlock()
		switch asked.key {
		case int16(kmsg.Produce):
			if c.proxy.loses() {
				return errCut
			}
		case int16(kmsg.Metadata):
			if frame, err = k.rewrite(c.proxy, asked, frame); err != nil {
				return err
			}
		}
		if err := writeFrame(client, frame); err != nil {
			return err
		}
	}
}

// rewrite puts the proxy's ports in place of the brokers' addresses.
func (k *kafka) rewrite(p *Proxy, asked request, frame []byte) ([]byte, error) {
	answer := kmsg.NewPtrMetadataResponse()
	answer.SetVersion(asked.version)
	head := 4
	if answer.IsFlexible() {
		head++ // the answer's own tags: none
	}
	if len(frame) < head {
		return nil, errors.New("answer without a header")
	}
	if err := answer.ReadFrom(frame[head:]); err != nil {
		return nil, fmt.Errorf("read the brokers' addresses: %w", err)
	}
	for i := range answer.Brokers {
		b := &answer.Brokers[i]
		addr, err := k.portOf(p, net.JoinHostPort(b.Host, strconv.Itoa(int(b.Port))))
		if err != nil {
			return nil, err
		}
		host, port, err := net.SplitHostPort(addr)
		if err != nil {
			return nil, err
		}
		n, err := strconv.ParseInt(port, 10, 32)
		if err != nil {
			return nil, err
		}
		b.Host, b.Port = host, int32(n)
	}
	return answer.AppendTo(frame[:head:head]), nil
}

func readFrame(r io.Reader) ([]byte, error) {
	const limit = 128 << 20
	var size [4]byte
	if _, err := io.ReadFull(r, size[:]); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(size[:])
	if n > limit {
		return nil, errors.New("frame out of bounds")
	}
	frame := make([]byte, n)
	_, err := io.ReadFull(r, frame)
	return frame, err
}

func writeFrame(w io.Writer, frame []byte) error {
	_, err := w.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(frame))), frame...))
	return err
}
