package transport

import (
	"strconv"
	"time"

	"github.com/backend-skeleton/relay/messaging"
)

// EncodeHeaders renders the wire contract: the msg. family in a fixed order,
// then trace context, then the user's headers in the order of their names. Every
// caller that publishes renders with it, so that a consumer cannot tell who
// published. It allocates twice, whatever the number of headers; the values
// share one array and must not be appended to.
func EncodeHeaders(f *WireFields) []Header {
	return AppendHeaders(nil, nil, f)
}

// AppendHeaders is [EncodeHeaders] into memory that the caller has: the headers
// are appended to dst, their values lie in arena. What is too small is replaced
// by an allocation.
func AppendHeaders(dst []Header, arena []byte, f *WireFields) []Header {
	if cap(dst)-len(dst) < f.count() {
		dst = append(make([]Header, 0, len(dst)+f.count()), dst...)
	}
	if cap(arena) < f.size() {
		arena = make([]byte, 0, f.size())
	}
	e := encoder{headers: dst, arena: arena[:0]}
	e.id(HeaderID, f.ID)
	e.text(HeaderType, string(f.Type))
	e.number(HeaderSchemaVersion, int(f.SchemaVersion))
	e.text(HeaderProducer, string(f.Producer))
	e.time(HeaderProducedAt, f.ProducedAt)
	e.text(HeaderContentType, f.ContentType)
	e.time(HeaderOccurredAt, f.OccurredAt)
	e.text(HeaderCorrelation, string(f.Correlation))
	e.id(HeaderCausation, f.Causation.MessageID)
	e.text(HeaderTenant, string(f.Tenant))
	e.text(HeaderPartitionKey, f.PartitionKey)
	e.text(HeaderOrderingKey, f.OrderingKey)
	e.text(HeaderSchemaRef, f.SchemaReference)
	e.text(HeaderClaimCheck, f.ClaimCheck)
	if !f.RedriveID.IsZero() {
		e.text(HeaderRedriveID, f.RedriveID.String())
	}
	e.number(HeaderRedriveCount, f.RedriveCount)
	if !f.ReplayID.IsZero() {
		e.text(HeaderReplayID, f.ReplayID.String())
	}
	e.text(HeaderTraceParent, f.Trace.Parent)
	e.text(HeaderTraceState, f.Trace.State)
	e.text(HeaderBaggage, f.Trace.Baggage)
	for name, value := range f.Headers.All() {
		e.add(name, len(e.arena), append(e.arena, value...))
	}
	return e.headers
}

const (
	idSize     = 36
	timeSize   = len(timeLayout)
	numberSize = 20 // an int64 with its sign
)

// count is the number of headers, or a few more.
func (f *WireFields) count() int {
	n := 9 + f.Headers.Len() // the six that are always there, and what is no text
	for _, s := range [...]string{
		string(f.Correlation), string(f.Tenant), f.PartitionKey, f.OrderingKey, f.SchemaReference, f.ClaimCheck,
		f.Trace.Parent, f.Trace.State, f.Trace.Baggage,
	} {
		if s != "" {
			n++
		}
	}
	return n
}

// size is an upper bound of the bytes of all values.
func (f *WireFields) size() int {
	n := 4*idSize + 2*timeSize + 2*numberSize
	n += len(f.Type) + len(f.Producer) + len(f.ContentType) + len(f.Correlation) + len(f.Tenant)
	n += len(f.PartitionKey) + len(f.OrderingKey) + len(f.SchemaReference) + len(f.ClaimCheck)
	n += len(f.Trace.Parent) + len(f.Trace.State) + len(f.Trace.Baggage)
	for _, value := range f.Headers.All() {
		n += len(value)
	}
	return n
}

// encoder renders values one behind the other into one array.
type encoder struct {
	headers []Header
	arena   []byte
}

// add takes arena[from:] as the value; its capacity ends with it, so that no
// append of a reader can reach the next value.
func (e *encoder) add(name string, from int, arena []byte) {
	e.arena = arena
	e.headers = append(e.headers, Header{Name: name, Value: arena[from:len(arena):len(arena)]})
}

func (e *encoder) text(name, value string) {
	if value != "" {
		e.add(name, len(e.arena), append(e.arena, value...))
	}
}

func (e *encoder) id(name string, id messaging.MessageID) {
	if id.IsZero() {
		return
	}
	if arena, err := id.AppendText(e.arena); err == nil {
		e.add(name, len(e.arena), arena)
	}
}

func (e *encoder) number(name string, n int) {
	if n > 0 {
		e.add(name, len(e.arena), strconv.AppendInt(e.arena, int64(n), 10))
	}
}

func (e *encoder) time(name string, t time.Time) {
	if !t.IsZero() {
		e.add(name, len(e.arena), t.UTC().AppendFormat(e.arena, timeLayout))
	}
}
