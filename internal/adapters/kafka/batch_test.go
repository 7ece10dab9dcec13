package kafka

import (
	"bytes"
	"hash/crc32"
	"math"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/backend-skeleton/relay/messaging/transport"
)

func TestBatchIsReadBackByTheProtocolLibrary(t *testing.T) {
	t.Parallel()
	now := time.UnixMilli(1_700_000_000_123)
	ms := []*transport.Message{
		{Key: []byte("k"), Value: []byte("v"), Header: []transport.Header{{Name: "a", Value: []byte("1")}, {Name: "b"}}},
		{NullKey: true, NullValue: true, PublishedAt: now.Add(-time.Hour)},
		{Value: bytes.Repeat([]byte("x"), 70_000), PublishedAt: now.Add(time.Hour)},
	}
	raw := appendBatch([]byte("before"), position{id: 1 << 40, epoch: 7, next: math.MaxInt32}, now, ms)[len("before"):]

	var b kmsg.RecordBatch
	if err := b.ReadFrom(raw); err != nil {
		t.Fatal(err)
	}
	if int(b.Length) != len(raw)-12 || b.Magic != 2 || b.Attributes != 0 || b.PartitionLeaderEpoch != -1 {
		t.Errorf("header: length %d of %d, magic %d, attributes %d, leader epoch %d", b.Length, len(raw), b.Magic, b.Attributes, b.PartitionLeaderEpoch)
	}
	if got := int32(crc32.Checksum(raw[21:], crc32.MakeTable(crc32.Castagnoli))); b.CRC != got {
		t.Errorf("checksum %d, want %d", b.CRC, got)
	}
	if b.ProducerID != 1<<40 || b.ProducerEpoch != 7 || b.FirstSequence != math.MaxInt32 || b.NumRecords != 3 || b.LastOffsetDelta != 2 {
		t.Errorf("producer %d/%d/%d, %d records, last delta %d", b.ProducerID, b.ProducerEpoch, b.FirstSequence, b.NumRecords, b.LastOffsetDelta)
	}
	if b.FirstTimestamp != now.UnixMilli() || b.MaxTimestamp != now.Add(time.Hour).UnixMilli() {
		t.Errorf("times %d to %d", b.FirstTimestamp, b.MaxTimestamp)
	}
	rest := b.Records
	for i, m := range ms {
		var r kmsg.Record
		n := recordLen(rest)
		if err := r.ReadFrom(rest[:n]); err != nil {
			t.Fatalf("record %d: %v", i, err)
		}
		rest = rest[n:]
		if (r.Key == nil) != keyless(m) || !bytes.Equal(r.Key, m.Key) || (r.Value == nil) != m.NullValue || !bytes.Equal(r.Value, m.Value) || len(r.Headers) != len(m.Header) || int(r.OffsetDelta) != i {
			t.Errorf("record %d differs", i)
		}
		if n > recordBytes(m) {
			t.Errorf("record %d takes %d bytes, bound %d", i, n, recordBytes(m))
		}
	}
	if len(rest) != 0 {
		t.Errorf("%d bytes left over", len(rest))
	}
}

// recordLen reads a record's varint length and gives its whole size.
func recordLen(b []byte) int {
	u, shift, n := uint64(0), 0, 0
	for {
		c := b[n]
		n++
		u |= uint64(c&0x7f) << shift
		if shift += 7; c < 0x80 {
			return int(int64(u>>1)^-int64(u&1)) + n
		}
	}
}

func TestSequenceWraps(t *testing.T) {
	t.Parallel()
	p := position{next: math.MaxInt32 - 1}
	p.advance(3)
	if p.next != 1 {
		t.Errorf("sequence %d after the largest, want 1", p.next)
	}
	p = position{id: 1, epoch: math.MaxInt16 - 1, next: 5}
	if !p.fence() || p.epoch != math.MaxInt16 || p.next != 0 {
		t.Errorf("fenced to %+v", p)
	}
	if p.fence() {
		t.Error("fenced beyond the last epoch")
	}
}

// TestPartitionsLikeTheJavaClient compares with the library's partitioner, which is
// the Java client's.
func TestPartitionsLikeTheJavaClient(t *testing.T) {
	t.Parallel()
	reference := kgo.StickyKeyPartitioner(nil).ForTopic("t")
	key := []byte{}
	for i := range 2000 {
		if got, want := partitionOf(key, 13), reference.Partition(&kgo.Record{Key: key}, 13); len(key) > 0 && got != want {
			t.Fatalf("key of %d bytes: partition %d, want %d", len(key), got, want)
		}
		key = append(key[:0], bytes.Repeat([]byte{byte(i), byte(i >> 3), byte(255 - i)}, 1+i%9)...)[:1+i%20]
	}
	if got := murmur2([]byte("21")); int32(got) != -973932308 {
		t.Errorf("murmur2 of 21 is %d, the Java client's is -973932308", int32(got))
	}
}

func TestUnencodableHeaders(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]bool{"a": true, "é": true, "": false, "\xff": false} {
		if got := encodable(&transport.Message{Header: []transport.Header{{Name: name}}}); got != want {
			t.Errorf("header name %q encodable: %v", name, got)
		}
	}
}
