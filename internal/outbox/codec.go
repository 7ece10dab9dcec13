package outbox

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgtype"
)

// teach gives a session's types short ways for what the hot statements carry by the thousand: ids, and arrays of ids and
// of texts. The library would find the way for each element anew, and take ids through their text.
func teach(m *pgtype.Map) {
	if t, ok := m.TypeForOID(pgtype.UUIDOID); ok {
		if _, known := t.Codec.(uuidCodec); known {
			return
		}
	}
	id := &pgtype.Type{Name: "uuid", OID: pgtype.UUIDOID, Codec: uuidCodec{}}
	m.RegisterType(id)
	m.RegisterType(&pgtype.Type{Name: "_uuid", OID: pgtype.UUIDArrayOID, Codec: uuidsCodec{&pgtype.ArrayCodec{ElementType: id}}})
	if text, ok := m.TypeForOID(pgtype.TextOID); ok {
		m.RegisterType(&pgtype.Type{Name: "_text", OID: pgtype.TextArrayOID, Codec: textsCodec{&pgtype.ArrayCodec{ElementType: text}}})
		m.RegisterType(&pgtype.Type{Name: "text", OID: pgtype.TextOID, Codec: textCodec{}})
	}
	if number, ok := m.TypeForOID(pgtype.Int8OID); ok {
		m.RegisterType(&pgtype.Type{Name: "_int8", OID: pgtype.Int8ArrayOID, Codec: int64sCodec{&pgtype.ArrayCodec{ElementType: number}}})
	}
}

// uuidCodec takes [uuid.UUID] as it is; whatever else goes the library's way.
type uuidCodec struct{ pgtype.UUIDCodec }

func (c uuidCodec) PlanEncode(m *pgtype.Map, oid uint32, format int16, value any) pgtype.EncodePlan {
	if _, ok := value.(uuid.UUID); ok && format == pgtype.BinaryFormatCode {
		return encodeUUID{}
	}
	return c.UUIDCodec.PlanEncode(m, oid, format, value)
}

func (c uuidCodec) PlanScan(m *pgtype.Map, oid uint32, format int16, target any) pgtype.ScanPlan {
	if _, ok := target.(*uuid.UUID); ok && format == pgtype.BinaryFormatCode {
		return scanUUID{}
	}
	return c.UUIDCodec.PlanScan(m, oid, format, target)
}

type encodeUUID struct{}

func (encodeUUID) Encode(value any, buf []byte) ([]byte, error) {
	id := value.(uuid.UUID)
	return append(buf, id[:]...), nil
}

type scanUUID struct{}

func (scanUUID) Scan(src []byte, target any) error {
	if len(src) != len(uuid.UUID{}) {
		return fmt.Errorf("an id of %d bytes", len(src))
	}
	copy(target.(*uuid.UUID)[:], src)
	return nil
}

// uuidsCodec writes a slice of ids in one go.
type uuidsCodec struct{ *pgtype.ArrayCodec }

func (c uuidsCodec) PlanEncode(m *pgtype.Map, oid uint32, format int16, value any) pgtype.EncodePlan {
	if _, ok := value.([]uuid.UUID); ok && format == pgtype.BinaryFormatCode {
		return encodeUUIDs{}
	}
	return c.ArrayCodec.PlanEncode(m, oid, format, value)
}

type encodeUUIDs struct{}

func (encodeUUIDs) Encode(value any, buf []byte) ([]byte, error) {
	ids := value.([]uuid.UUID)
	if ids == nil {
		return nil, nil
	}
	buf = appendArrayHeader(buf, pgtype.UUIDOID, len(ids))
	for i := range ids {
		buf = binary.BigEndian.AppendUint32(buf, uint32(len(ids[i])))
		buf = append(buf, ids[i][:]...)
	}
	return buf, nil
}

// textsCodec writes a slice of texts in one go.
type textsCodec struct{ *pgtype.ArrayCodec }

func (c textsCodec) PlanEncode(m *pgtype.Map, oid uint32, format int16, value any) pgtype.EncodePlan {
	if _, ok := value.([]string); ok && format == pgtype.BinaryFormatCode {
		return encodeTexts{}
	}
	return c.ArrayCodec.PlanEncode(m, oid, format, value)
}

type encodeTexts struct{}

func (encodeTexts) Encode(value any, buf []byte) ([]byte, error) {
	texts := value.([]string)
	if texts == nil {
		return nil, nil
	}
	buf = appendArrayHeader(buf, pgtype.TextOID, len(texts))
	for _, t := range texts {
		buf = binary.BigEndian.AppendUint32(buf, uint32(len(t)))
		buf = append(buf, t...)
	}
	return buf, nil
}

// int64sCodec writes a slice of numbers in one go.
type int64sCodec struct{ *pgtype.ArrayCodec }

func (c int64sCodec) PlanEncode(m *pgtype.Map, oid uint32, format int16, value any) pgtype.EncodePlan {
	if _, ok := value.([]int64); ok && format == pgtype.BinaryFormatCode {
		return encodeInt64s{}
	}
	return c.ArrayCodec.PlanEncode(m, oid, format, value)
}

type encodeInt64s struct{}

func (encodeInt64s) Encode(value any, buf []byte) ([]byte, error) {
	numbers := value.([]int64)
	if numbers == nil {
		return nil, nil
	}
	buf = appendArrayHeader(buf, pgtype.Int8OID, len(numbers))
	for _, n := range numbers {
		buf = binary.BigEndian.AppendUint32(buf, 8)
		buf = binary.BigEndian.AppendUint64(buf, uint64(n))
	}
	return buf, nil
}

// repeated reads a text that is the same in most rows, and keeps one copy of it.
type repeated struct {
	into *string
	seen map[string]string
}

// text of these bytes.
func (r *repeated) text(src []byte) string {
	if known, ok := r.seen[string(src)]; ok { // without a copy
		return known
	}
	if r.seen == nil || len(r.seen) == 1000 {
		r.seen = map[string]string{}
	}
	text := string(src)
	r.seen[text] = text
	return text
}

// textCodec takes a [repeated] too.
type textCodec struct{ pgtype.TextCodec }

func (c textCodec) PlanScan(m *pgtype.Map, oid uint32, format int16, target any) pgtype.ScanPlan {
	if _, ok := target.(*repeated); ok {
		return scanRepeated{}
	}
	return c.TextCodec.PlanScan(m, oid, format, target)
}

type scanRepeated struct{}

func (scanRepeated) Scan(src []byte, target any) error {
	if src == nil {
		return errors.New("a text that is null")
	}
	r := target.(*repeated)
	*r.into = r.text(src)
	return nil
}

// appendArrayHeader begins a one-dimensional array without nulls in the server's binary form.
func appendArrayHeader(buf []byte, element uint32, n int) []byte {
	buf = binary.BigEndian.AppendUint32(buf, 1)
	buf = binary.BigEndian.AppendUint32(buf, 0) // no nulls
	buf = binary.BigEndian.AppendUint32(buf, element)
	buf = binary.BigEndian.AppendUint32(buf, uint32(n))
	return binary.BigEndian.AppendUint32(buf, 1) // the first index
}
