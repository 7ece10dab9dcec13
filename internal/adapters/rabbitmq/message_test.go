package rabbitmq

import (
	"bytes"
	"encoding/binary"
	"net"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/backend-skeleton/relay/messaging"
	"github.com/backend-skeleton/relay/messaging/transport"
)

func header(name, value string) transport.Header {
	return transport.Header{Name: name, Value: []byte(value)}
}

func TestEncodeMapsPropertiesAndHeaders(t *testing.T) {
	id := messaging.NewMessageID()
	at := time.Date(2030, 1, 2, 3, 4, 5, 678, time.UTC)
	m := transport.Message{
		ID: id, Key: []byte("k"), Value: []byte(`{"a":1}`), PublishedAt: at,
		Header: []transport.Header{
			header("msg.id", id.String()), header("msg.type", "order.created"), header("msg.schema-version", "1"),
			header("msg.producer", "orders"), header("msg.content-type", "application/json"),
			header("msg.correlation-id", "c-1"), header("n", "9223372036854775807"), header("e", ""),
		},
	}
	out, f := encode(&route{routingKey: "orders"}, &m, 1<<20)
	if f != nil {
		t.Fatal(f)
	}
	p := out.publishing
	for what, got := range map[string][2]string{
		"message-id": {p.MessageId, id.String()}, "type": {p.Type, "order.created"}, "app-id": {p.AppId, "orders"},
		"content-type": {p.ContentType, "application/json"}, "correlation-id": {p.CorrelationId, "c-1"},
		"routing key": {out.routingKey, "orders"}, "body": {string(p.Body), `{"a":1}`},
	} {
		if got[0] != got[1] {
			t.Errorf("%s is %q, want %q", what, got[0], got[1])
		}
	}
	if p.DeliveryMode != amqp.Persistent || !p.Timestamp.Equal(at) {
		t.Errorf("delivery mode %d, timestamp %v", p.DeliveryMode, p.Timestamp)
	}
	if p.Priority != 0 || p.Expiration != "" || p.ReplyTo != "" || p.UserId != "" {
		t.Error("a property is set that the contract does not name")
	}
	if len(p.Headers) != len(m.Header) {
		t.Fatalf("%d headers, want %d", len(p.Headers), len(m.Header))
	}
	for _, h := range m.Header {
		if got, ok := p.Headers[h.Name].(string); !ok || got != string(h.Value) {
			t.Errorf("header %s is %v, want the text %q", h.Name, p.Headers[h.Name], h.Value)
		}
	}
}

// B18, B19: whatever the protocol cannot carry is refused here, alone, and in bytes.
func TestB19_EncodeHoldsTheLimitsInBytes(t *testing.T) {
	fixed := &route{routingKey: "k"}
	perMessage := &route{perMessage: true, routingKey: "fallback"}
	with := func(hs ...transport.Header) *transport.Message { return &transport.Message{Header: hs} }
	cases := map[string]struct {
		r    *route
		m    *transport.Message
		code string
		says string
	}{
		"key of 255 bytes":       {perMessage, with(header("msg.partition-key", strings.Repeat("a", 255))), "", ""},
		"key of 256 bytes":       {perMessage, with(header("msg.partition-key", strings.Repeat("a", 256))), messaging.CodeRoutingKeyTooLong, "256 bytes"},
		"key of 128 letters é":   {perMessage, with(header("msg.partition-key", strings.Repeat("é", 128))), messaging.CodeRoutingKeyTooLong, "256 bytes"},
		"key without a header":   {perMessage, with(), "", ""},
		"empty header value":     {fixed, with(header("e", "")), "", ""},
		"empty header name":      {fixed, with(header("", "v")), messaging.CodeHeaderRejected, "0 bytes"},
		"header name too long":   {fixed, with(header(strings.Repeat("n", 256), "v")), messaging.CodeHeaderRejected, "256 bytes"},
		"header name repeated":   {fixed, with(header("a", "1"), header("a", "2")), messaging.CodeHeaderRejected, "repeated"},
		"sender-selected route":  {fixed, with(header("CC", "elsewhere")), messaging.CodeHeaderRejected, "CC"},
		"blind route":            {fixed, with(header("BCC", "elsewhere")), messaging.CodeHeaderRejected, "CC"},
		"lower case is ordinary": {fixed, with(header("cc", "x")), "", ""},
		"body over the limit":    {fixed, &transport.Message{Value: make([]byte, 101)}, messaging.CodeTooLarge, "101 bytes, the limit is 100"},
		"body at the limit":      {fixed, &transport.Message{Value: make([]byte, 100)}, "", ""},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			_, f := encode(c.r, c.m, 100)
			switch {
			case c.code == "" && f != nil:
				t.Errorf("refused: %v", f)
			case c.code == "":
			case f == nil || f.Code != c.code || f.Category != messaging.CategoryValidation:
				t.Errorf("got %v, want %s", f, c.code)
			case !strings.Contains(f.Message, c.says):
				t.Errorf("the message %q does not say %q", f.Message, c.says)
			}
		})
	}
}

func TestEncodeLeavesOutLongProperties(t *testing.T) {
	long := strings.Repeat("x", 256)
	out, f := encode(&route{}, &transport.Message{Header: []transport.Header{
		header("msg.type", long), header("msg.correlation-id", long), header("msg.content-type", long), header("msg.producer", long),
	}}, 1)
	if f != nil {
		t.Fatal(f)
	}
	p := out.publishing
	if p.Type+p.CorrelationId+p.ContentType+p.AppId != "" {
		t.Error("a property of more than 255 bytes is set")
	}
	if p.Headers["msg.type"] != long || p.Headers["msg.correlation-id"] != long {
		t.Error("the header does not carry what the property cannot")
	}
}

func TestRoutingKeyComesFromThePartitionKeyNotTheRecordKey(t *testing.T) {
	m := &transport.Message{Key: []byte("ordering"), Header: []transport.Header{header("msg.partition-key", "partition")}}
	for want, r := range map[string]*route{
		"partition": {perMessage: true, routingKey: "fixed"}, "fixed": {routingKey: "fixed"},
	} {
		if out, f := encode(r, m, 1); f != nil || out.routingKey != want {
			t.Errorf("routing key %q (%v), want %q", out.routingKey, f, want)
		}
	}
}

// The size that is held against the frame limit is what the library writes.
func TestPropertyBytesAreThoseOnTheWire(t *testing.T) {
	id := messaging.NewMessageID()
	out, f := encode(&route{}, &transport.Message{ID: id, Header: []transport.Header{
		header("msg.id", id.String()), header("msg.type", "t"), header("msg.correlation-id", strings.Repeat("c", 300)),
		header("msg.producer", "p"), header("msg.content-type", "text/plain"), header("user", strings.Repeat("v", 5000)),
	}}, 1)
	if f != nil {
		t.Fatal(f)
	}
	if got := contentHeaderOnTheWire(t, out); got != out.propertyBytes {
		t.Errorf("computed %d bytes, the library writes %d", out.propertyBytes, got)
	}
	if f := out.fits(out.propertyBytes + frameBytes); f != nil {
		t.Errorf("refused although it fits: %v", f)
	}
	if f := out.fits(out.propertyBytes + frameBytes - 1); f == nil || f.Code != messaging.CodeHeaderRejected {
		t.Errorf("got %v, want %s", f, messaging.CodeHeaderRejected)
	}
	if f := out.fits(0); f != nil {
		t.Errorf("refused without a limit: %v", f)
	}
}

// contentHeaderOnTheWire lets the library publish to a scripted broker and measures
// the payload of its content header frame.
func contentHeaderOnTheWire(t *testing.T, out outgoing) int {
	t.Helper()
	client, server := net.Pipe()
	defer func() { _ = client.Close() }()
	sizes := make(chan int, 1)
	go func() {
		defer func() { _ = server.Close() }()
		scriptedBroker(server, sizes)
	}()
	conn, err := amqp.Open(client, amqp.Config{SASL: []amqp.Authentication{&amqp.PlainAuth{}}, Locale: "en_US", Vhost: "/"})
	if err != nil {
		t.Fatal(err)
	}
	ch, err := conn.Channel()
	if err != nil {
		t.Fatal(err)
	}
	if err := ch.Publish("", "k", false, false, out.publishing); err != nil {
		t.Fatal(err)
	}
	size := <-sizes
	_ = client.Close()
	return size
}

// scriptedBroker speaks just enough AMQP to open a channel, and reports the size
// of the first content header frame.
func scriptedBroker(conn net.Conn, sizes chan<- int) {
	method := func(channel uint16, class, id uint16, args ...byte) {
		payload := binary.BigEndian.AppendUint16(nil, class)
		payload = append(binary.BigEndian.AppendUint16(payload, id), args...)
		frame := binary.BigEndian.AppendUint16([]byte{1}, channel)
		frame = binary.BigEndian.AppendUint32(frame, uint32(len(payload)))
		_, _ = conn.Write(append(append(frame, payload...), 0xCE))
	}
	read := func(n int) []byte {
		b := make([]byte, n)
		for at := 0; at < n; {
			k, err := conn.Read(b[at:])
			if err != nil {
				return nil
			}
			at += k
		}
		return b
	}
	read(8) // protocol header
	start := []byte{0, 9, 0, 0, 0, 0, 0, 0, 0, 5}
	method(0, 10, 10, append(append(start, "PLAIN"...), 0, 0, 0, 5, 'e', 'n', '_', 'U', 'S')...)
	for {
		head := read(7)
		if head == nil {
			return
		}
		payload := read(int(binary.BigEndian.Uint32(head[3:])) + 1)
		if payload == nil {
			return
		}
		switch {
		case head[0] == 2:
			sizes <- len(payload) - 1
		case head[0] != 1:
		case bytes.HasPrefix(payload, []byte{0, 10, 0, 11}): // start-ok
			method(0, 10, 30, 0, 0, 0, 2, 0, 0, 0, 0)
		case bytes.HasPrefix(payload, []byte{0, 10, 0, 40}): // open
			method(0, 10, 41, 0)
		case bytes.HasPrefix(payload, []byte{0, 20, 0, 10}): // channel.open
			method(1, 20, 11, 0, 0, 0, 0)
		}
	}
}
