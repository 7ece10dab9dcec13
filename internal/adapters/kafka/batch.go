package kafka

import (
	"encoding/binary"
	"hash/crc32"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/backend-skeleton/relay/messaging/transport"
)

const (
	// batchOverhead is the size of a record batch without records.
	batchOverhead = 61
	// recordOverhead is the most that a record takes beside its key, value and
	// headers: length, attributes, timestamp and offset deltas, key and value
	// lengths, header count.
	recordOverhead = 5 + 1 + 10 + 5 + 5 + 5 + 5
	headerOverhead = 5 + 5
	// maxRecordBytes is refused before it is sent: a broker reads requests of up to
	// 100 MiB.
	maxRecordBytes = 64 << 20
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// position is where a batch stands in its producer's sequence on one partition. A
// broker recognises a batch that it has by it, and refuses a lower epoch.
type position struct {
	id    int64
	epoch int16
	next  int32
}

// advance moves past n stored records; sequences wrap to 0 after the largest int32.
func (p *position) advance(n int) {
	p.next = int32((int64(p.next) + int64(n)) & 0x7fffffff)
}

// recordBytes is an upper bound of what m takes in a batch.
func recordBytes(m *transport.Message) int {
	n := recordOverhead + len(m.Key) + len(m.Value)
	for i := range m.Header {
		n += headerOverhead + len(m.Header[i].Name) + len(m.Header[i].Value)
	}
	return n
}

// encodable tells whether the record format can carry the message's headers: names
// are UTF-8 text.
func encodable(m *transport.Message) bool {
	for i := range m.Header {
		if m.Header[i].Name == "" || !utf8.ValidString(m.Header[i].Name) {
			return false
		}
	}
	return true
}

// keyless tells null from empty: a message without key bytes has a null key.
func keyless(m *transport.Message) bool { return m.NullKey || m.Key == nil }

// appendBatch encodes the messages as one record batch (magic 2, not compressed)
// that begins at pos. A message without its own time gets now; the unit of the
// format is milliseconds.
func appendBatch(dst []byte, pos position, now time.Time, ms []*transport.Message) []byte {
	start := len(dst)
	dst = append(dst, make([]byte, batchOverhead)...)

	millis := func(m *transport.Message) int64 {
		if m.PublishedAt.IsZero() {
			return now.UnixMilli()
		}
		return m.PublishedAt.UnixMilli()
	}
	first := millis(ms[0])
	last := first
	for i, m := range ms {
		at := millis(m)
		last = max(last, at)
		dst = appendRecord(dst, m, at-first, i)
	}

	b, be := dst[start:], binary.BigEndian
	// 0: base offset, given by the broker
	be.PutUint32(b[8:], uint32(len(b)-12))
	be.PutUint32(b[12:], 0xffffffff) // leader epoch: not known to producers
	b[16] = 2                        // magic
	// 17: checksum, below. 21: attributes: no compression, create time
	be.PutUint32(b[23:], uint32(len(ms)-1))
	be.PutUint64(b[27:], uint64(first))
	be.PutUint64(b[35:], uint64(last))
	be.PutUint64(b[43:], uint64(pos.id))
	be.PutUint16(b[51:], uint16(pos.epoch))
	be.PutUint32(b[53:], uint32(pos.next))
	be.PutUint32(b[57:], uint32(len(ms)))
	be.PutUint32(b[17:], crc32.Checksum(b[21:], castagnoli))
	return dst
}

// buffers lends the memory of batches, so that idle partitions hold none.
type buffers struct{ pool sync.Pool }

func (b *buffers) get() []byte {
	if v, ok := b.pool.Get().(*[]byte); ok {
		return (*v)[:0]
	}
	return nil
}

// put takes a buffer back; one of a giant record is left to the collector.
func (b *buffers) put(buf []byte) {
	if cap(buf) > 0 && cap(buf) <= 2<<20 {
		b.pool.Put(&buf)
	}
}

func appendRecord(dst []byte, m *transport.Message, timeDelta int64, offsetDelta int) []byte {
	n := 1 + varintLen(timeDelta) + varintLen(int64(offsetDelta))
	n += bytesLen(m.Key, keyless(m)) + bytesLen(m.Value, m.NullValue) + varintLen(int64(len(m.Header)))
	for i := range m.Header {
		n += varintLen(int64(len(m.Header[i].Name))) + len(m.Header[i].Name) + bytesLen(m.Header[i].Value, false)
	}
	dst = binary.AppendVarint(dst, int64(n))
	dst = append(dst, 0) // attributes
	dst = binary.AppendVarint(dst, timeDelta)
	dst = binary.AppendVarint(dst, int64(offsetDelta))
	dst = appendBytes(dst, m.Key, keyless(m))
	dst = appendBytes(dst, m.Value, m.NullValue)
	dst = binary.AppendVarint(dst, int64(len(m.Header)))
	for i := range m.Header {
		dst = binary.AppendVarint(dst, int64(len(m.Header[i].Name)))
		dst = append(dst, m.Header[i].Name...)
		dst = appendBytes(dst, m.Header[i].Value, false)
	}
	return dst
}

// appendBytes writes length and bytes; the length of null is -1.
func appendBytes(dst, b []byte, null bool) []byte {
	if null {
		return binary.AppendVarint(dst, -1)
	}
	return append(binary.AppendVarint(dst, int64(len(b))), b...)
}

func bytesLen(b []byte, null bool) int {
	if null {
		return 1
	}
	return varintLen(int64(len(b))) + len(b)
}

func varintLen(v int64) int {
	u := uint64(v<<1) ^ uint64(v>>63)
	n := 1
	for ; u >= 0x80; u >>= 7 {
		n++
	}
	return n
}
