package transport

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/backend-skeleton/relay/messaging"
)

// ErrForeign says that a delivery was not written by this wire contract: it has
// no valid msg.id or no valid msg.type.
var ErrForeign = errors.New("foreign message")

// DecodeHeaders reads what [EncodeHeaders] wrote. Without a valid msg.id and
// msg.type the error is [ErrForeign]; any other missing or malformed field of
// the msg. family is a [messaging.ErrValidation] that names the header, never its
// value, and the fields that could be read are filled nevertheless.
//
// Other headers never cause an error: names of the msg. family that are not
// known here are left to those who know them, and a header that no user of this
// platform could have written (too large, not text, forbidden) is skipped. Of a
// repeated user header the first counts.
func DecodeHeaders(headers []Header) (WireFields, error) {
	var d decoder
	size := 0
	for _, h := range headers {
		if messaging.ReservedHeader(h.Name) {
			size += len(h.Value)
		}
	}
	d.text.Grow(size)
	for i, h := range headers {
		d.read(headers[:i], h.Name, h.Value)
	}
	if d.foreign == nil && (d.f.ID.IsZero() || d.f.Type == "") {
		d.foreign = errors.New("msg.id or msg.type is absent")
	}
	if d.foreign != nil {
		return d.f, fmt.Errorf("%w: %w", ErrForeign, d.foreign)
	}
	d.f.Headers, _ = messaging.NewHeaders(d.user) // each was checked on its way in
	if d.bad == nil {
		d.bad = d.f.Check()
	}
	return d.f, d.bad
}

type decoder struct {
	f            WireFields
	text         strings.Builder // the values of the msg. family, one behind the other: they are kept by one allocation
	seen         map[string]bool // only where there are many headers
	foreign, bad error
	user         map[string]string
	userBytes    int
}

func (d *decoder) read(before []Header, name string, value []byte) {
	if !messaging.ReservedHeader(name) {
		if utf8.ValidString(name) { // lowering would make any name valid
			d.readUser(strings.ToLower(name), value)
		}
		return
	}
	if d.repeated(before, name) {
		d.fail(name, errors.New("is repeated"))
		return
	}
	from := d.text.Len()
	d.text.Write(value)
	if err := d.f.set(name, d.text.String()[from:]); err != nil {
		d.fail(name, err)
	}
}

// manyHeaders is where looking for a repeated name by going through those before gets slow.
const manyHeaders = 64

func (d *decoder) repeated(before []Header, name string) bool {
	if len(before) < manyHeaders {
		return slices.ContainsFunc(before, func(h Header) bool { return h.Name == name })
	}
	if d.seen == nil {
		d.seen = make(map[string]bool, 2*manyHeaders)
		for _, h := range before {
			d.seen[h.Name] = true
		}
	}
	had := d.seen[name]
	d.seen[name] = true
	return had
}

func (d *decoder) fail(name string, err error) {
	err = malformed(name, err)
	if name == HeaderID || name == HeaderType {
		d.foreign = err
	} else if d.bad == nil {
		d.bad = err
	}
}

func (d *decoder) readUser(name string, value []byte) {
	_, repeated := d.user[name]
	size := len(name) + len(value)
	if repeated || len(d.user) == messaging.MaxHeaders || d.userBytes+size > messaging.MaxHeaderBytes {
		return
	}
	if messaging.CheckHeader(name, string(value)) != nil {
		return
	}
	if d.user == nil {
		d.user = make(map[string]string)
	}
	d.user[name], d.userBytes = string(value), d.userBytes+size
}

// set fills the field of one reserved header; a name without field is ignored.
func (f *WireFields) set(name, v string) (err error) {
	switch name {
	case HeaderID:
		f.ID, err = messaging.ParseMessageID(v)
	case HeaderType:
		f.Type, err = messaging.ParseMessageType(v)
	case HeaderSchemaVersion:
		f.SchemaVersion, err = messaging.ParseSchemaVersion(v)
	case HeaderProducer:
		f.Producer, err = messaging.ParseProducerID(v)
	case HeaderProducedAt:
		f.ProducedAt, err = parseTime(v)
	case HeaderContentType:
		f.ContentType, err = v, messaging.CheckContentType(v)
	case HeaderOccurredAt:
		f.OccurredAt, err = parseTime(v)
	case HeaderCorrelation:
		f.Correlation, err = messaging.ParseCorrelationID(v)
	case HeaderCausation:
		f.Causation, err = messaging.ParseCausationID(v)
	case HeaderTenant:
		f.Tenant, err = messaging.ParseTenant(v)
	case HeaderPartitionKey:
		f.PartitionKey, err = v, messaging.CheckKey("it", v)
	case HeaderOrderingKey:
		f.OrderingKey, err = v, messaging.CheckKey("it", v)
	case HeaderSchemaRef:
		f.SchemaReference = v
	case HeaderClaimCheck:
		f.ClaimCheck = v
	case HeaderRedriveID:
		f.RedriveID, err = messaging.ParseRedriveID(v)
	case HeaderRedriveCount:
		f.RedriveCount, err = parseCount(v)
	case HeaderReplayID:
		f.ReplayID, err = messaging.ParseReplayID(v)
	case HeaderTraceParent:
		f.Trace.Parent = v
	case HeaderTraceState:
		f.Trace.State = v
	case HeaderBaggage:
		f.Trace.Baggage = v
	}
	return err
}

// parseTime is wider than what is written: other writers may keep more or fewer
// digits of the second.
func parseTime(v string) (time.Time, error) {
	t, err := time.Parse(time.RFC3339Nano, v)
	if err != nil { // the library's text quotes its input
		return time.Time{}, errors.New("is not a time of RFC 3339")
	}
	return t.UTC(), nil
}

func parseCount(v string) (int, error) {
	n, err := strconv.Atoi(v)
	if err != nil || n < 1 || v[0] < '1' || v[0] > '9' {
		return 0, errors.New("is not a whole number from 1")
	}
	return n, nil
}

func absent(name string) error {
	return fmt.Errorf("%w: header %s is absent", messaging.ErrValidation, name)
}

func malformed(name string, err error) error {
	if errors.Is(err, messaging.ErrValidation) {
		return fmt.Errorf("header %s: %w", name, err)
	}
	return fmt.Errorf("%w: header %s %w", messaging.ErrValidation, name, err)
}
