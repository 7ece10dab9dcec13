package kafka

import (
	"fmt"
	"testing"
	"time"

	"github.com/backend-skeleton/relay/messaging/transport"
)

func TestPublishWritesTheRecordAsGiven(t *testing.T) {
	t.Parallel()
	onVersions(t, func(t *testing.T, c cluster) {
		topic := c.topic(t, 3)
		_, p := c.adapter(t)
		ms := []transport.Message{
			{Key: []byte("k1"), Value: []byte("v1"), Header: []transport.Header{{Name: "msg.id", Value: []byte("1")}, {Name: "a", Value: []byte("x")}, {Name: "a", Value: []byte("y")}, {Name: "e"}}},
			{NullKey: true, Value: []byte{}, Header: []transport.Header{{Name: "msg.id", Value: []byte("2")}}},
			{Key: []byte{}, NullValue: true, Header: []transport.Header{{Name: "msg.id", Value: []byte("3")}}},
		}
		before := time.Now().Truncate(time.Millisecond)
		rs := publish(t, p, endpoint(topic), 20*time.Second, ms...)
		expectAll(t, rs, confirmedVerdict)
		after := time.Now()

		got := map[string]string{}
		for _, r := range c.stored(t, topic) {
			id := string(r.Headers[0].Value)
			got[id] = fmt.Sprintf("key %q null %v, value %q null %v, headers %q", r.Key, r.Key == nil, r.Value, r.Value == nil, r.Headers)
			if r.Timestamp.Before(before) || r.Timestamp.After(after) {
				t.Errorf("record %s has the time %s, published between %s and %s", id, r.Timestamp, before, after)
			}
			want := fmt.Sprintf("kafka:%s/%d/%d", topic, r.Partition, r.Offset)
			for i, m := range ms {
				if string(m.Header[0].Value) == id && rs[i].Position.Text != want {
					t.Errorf("position %q, want %q", rs[i].Position.Text, want)
				}
			}
		}
		want := map[string]string{
			"1": `key "k1" null false, value "v1" null false, headers [{"msg.id" "1"} {"a" "x"} {"a" "y"} {"e" ""}]`,
			"2": `key "" null true, value "" null false, headers [{"msg.id" "2"}]`,
			"3": `key "" null false, value "" null true, headers [{"msg.id" "3"}]`,
		}
		for id, w := range want {
			if got[id] != w {
				t.Errorf("record %s:\n got %s\nwant %s", id, got[id], w)
			}
		}
		if len(got) != len(want) {
			t.Errorf("%d records, want %d", len(got), len(want))
		}
	})
}
