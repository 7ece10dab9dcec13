package cut

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
)

// TestKafkaLosesOneAnswer: the record is stored once although its first answer never came.
func TestKafkaLosesOneAnswer(t *testing.T) {
	t.Parallel()
	cluster, err := kfake.NewCluster(kfake.NumBrokers(3), kfake.SeedTopics(3, "orders"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	proxy, addr, err := Kafka(cluster.ListenAddrs()[0])
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(proxy.Close)
	cl, err := kgo.NewClient(kgo.SeedBrokers(addr), kgo.DefaultProduceTopic("orders"), kgo.RetryBackoffFn(func(int) time.Duration { return 10 * time.Millisecond }))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)

	if err := cl.ProduceSync(t.Context(), kgo.StringRecord("before")).FirstErr(); err != nil {
		t.Fatal(err)
	}
	lost := proxy.LoseNextAnswer()
	if err := cl.ProduceSync(t.Context(), kgo.StringRecord("cut")).FirstErr(); err != nil {
		t.Fatal(err)
	}
	select {
	case <-lost:
	default:
		t.Error("no answer was lost")
	}
	if err := cl.ProduceSync(t.Context(), kgo.StringRecord("after")).FirstErr(); err != nil {
		t.Fatal(err)
	}

	reader, err := kgo.NewClient(kgo.SeedBrokers(addr), kgo.ConsumeTopics("orders"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(reader.Close)
	seen := map[string]int{}
	for seen["before"] == 0 || seen["cut"] == 0 || seen["after"] == 0 {
		fetches := reader.PollFetches(t.Context())
		if err := fetches.Err(); err != nil {
			t.Fatal(err)
		}
		for _, r := range fetches.Records() {
			seen[string(r.Value)]++
		}
	}
	if seen["cut"] != 1 {
		t.Errorf("stored %d times", seen["cut"])
	}
}

// TestAMQPLosesOneConfirm: other frames pass, the confirm does not, and the connection ends.
func TestAMQPLosesOneConfirm(t *testing.T) {
	t.Parallel()
	frame := func(class, method uint16, rest string) []byte {
		payload := append(binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint16(nil, class), method), rest...)
		f := binary.BigEndian.AppendUint32([]byte{1, 0, 1}, uint32(len(payload)))
		return append(append(f, payload...), 0xCE)
	}
	opened, ack := frame(20, 11, "open-ok"), frame(60, 80, "12345678\x00")

	upstream, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { upstream.Close() })
	go func() { // a broker that answers each byte: first with open-ok, then with acks
		for {
			c, err := upstream.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				answer, b := opened, make([]byte, 1)
				for {
					if _, err := io.ReadFull(c, b); err != nil {
						return
					}
					if _, err := c.Write(answer); err != nil {
						return
					}
					answer = ack
				}
			}()
		}
	}()

	proxy, addr, err := AMQP(upstream.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(proxy.Close)
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	ask := func(want []byte) error {
		if _, err := c.Write([]byte{'.'}); err != nil {
			return err
		}
		got := make([]byte, len(want))
		if _, err := io.ReadFull(c, got); err != nil {
			return err
		}
		if !bytes.Equal(got, want) {
			t.Errorf("got %x, want %x", got, want)
		}
		return nil
	}
	if err := errors.Join(ask(opened), ask(ack)); err != nil {
		t.Fatal(err)
	}
	lost := proxy.LoseNextAnswer()
	if err := ask(ack); err == nil {
		t.Error("the confirm came through")
	}
	select {
	case <-lost:
	case <-time.After(5 * time.Second):
		t.Error("no confirm was lost")
	}
}
