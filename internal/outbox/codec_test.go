package outbox

import (
	"bytes"
	"slices"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgtype"
)

func TestTaughtSessionsWriteWhatTheLibraryWrites(t *testing.T) {
	t.Parallel()
	plain, taught := pgtype.NewMap(), pgtype.NewMap()
	teach(taught)
	teach(taught)
	ids := []uuid.UUID{uuid.Must(uuid.NewV7()), uuid.Must(uuid.NewV7()), uuid.Nil}
	for name, c := range map[string]struct {
		oid   uint32
		value any
	}{
		"id":         {pgtype.UUIDOID, ids[0]},
		"ids":        {pgtype.UUIDArrayOID, ids},
		"no ids":     {pgtype.UUIDArrayOID, []uuid.UUID{}},
		"nil ids":    {pgtype.UUIDArrayOID, []uuid.UUID(nil)},
		"texts":      {pgtype.TextArrayOID, []string{"", "a", `"quoted", {x}`, "ünï", "NULL"}},
		"no texts":   {pgtype.TextArrayOID, []string{}},
		"nil":        {pgtype.TextArrayOID, []string(nil)},
		"numbers":    {pgtype.Int8ArrayOID, []int64{0, -1, 1 << 62}},
		"no numbers": {pgtype.Int8ArrayOID, []int64{}},
		"no array":   {pgtype.Int8ArrayOID, []int64(nil)},
		"text":       {pgtype.TextOID, "ünï"},
		"bytes":      {pgtype.UUIDOID, [16]byte(ids[1])},
		"null":       {pgtype.UUIDOID, (*uuid.UUID)(nil)},
	} {
		for _, format := range []int16{pgtype.BinaryFormatCode, pgtype.TextFormatCode} {
			want, err := plain.Encode(c.oid, format, c.value, []byte("before"))
			if err != nil {
				t.Fatalf("%s: the library: %v", name, err)
			}
			got, err := taught.Encode(c.oid, format, c.value, []byte("before"))
			if err != nil || !bytes.Equal(got, want) || (got == nil) != (want == nil) {
				t.Errorf("%s in format %d: %q, want %q (%v)", name, format, got, want, err)
			}
		}
	}
}

func TestTaughtSessionsReadIDs(t *testing.T) {
	t.Parallel()
	m := pgtype.NewMap()
	teach(m)
	want := uuid.Must(uuid.NewV7())
	for _, format := range []int16{pgtype.BinaryFormatCode, pgtype.TextFormatCode} {
		src := want[:]
		if format == pgtype.TextFormatCode {
			src = []byte(want.String())
		}
		var got uuid.UUID
		var pointer *uuid.UUID
		if err := m.Scan(pgtype.UUIDOID, format, src, &got); err != nil || got != want {
			t.Errorf("format %d: %v, %v", format, got, err)
		}
		if err := m.Scan(pgtype.UUIDOID, format, src, &pointer); err != nil || pointer == nil || *pointer != want {
			t.Errorf("format %d by pointer: %v, %v", format, pointer, err)
		}
		if err := m.Scan(pgtype.UUIDOID, format, nil, &pointer); err != nil || pointer != nil {
			t.Errorf("format %d null by pointer: %v, %v", format, pointer, err)
		}
	}
	if err := m.Scan(pgtype.UUIDOID, pgtype.BinaryFormatCode, []byte("short"), new(uuid.UUID)); err == nil {
		t.Error("a broken id was read")
	}
	array, err := m.Encode(pgtype.UUIDArrayOID, pgtype.BinaryFormatCode, []uuid.UUID{want, want}, nil)
	if err != nil {
		t.Fatal(err)
	}
	var ids []uuid.UUID
	if err := m.Scan(pgtype.UUIDArrayOID, pgtype.BinaryFormatCode, array, &ids); err != nil || !slices.Equal(ids, []uuid.UUID{want, want}) {
		t.Errorf("ids: %v, %v", ids, err)
	}
}

// BenchmarkEncodeIDs is what the ids of one grouped outcome cost.
func BenchmarkEncodeIDs(b *testing.B) {
	ids := make([]uuid.UUID, 1000)
	for i := range ids {
		ids[i] = uuid.Must(uuid.NewV7())
	}
	for name, prepare := range map[string]func(*pgtype.Map){"library": func(*pgtype.Map) {}, "taught": teach} {
		b.Run(name, func(b *testing.B) {
			m := pgtype.NewMap()
			prepare(m)
			var buf []byte
			for b.Loop() {
				var err error
				if buf, err = m.Encode(pgtype.UUIDArrayOID, pgtype.BinaryFormatCode, ids, buf[:0]); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// Not parallel: it counts allocations.
func TestRepeatedTextsAreOneCopy(t *testing.T) {
	m := pgtype.NewMap()
	teach(m)
	var got string
	r := &repeated{into: &got}
	for _, format := range []int16{pgtype.BinaryFormatCode, pgtype.TextFormatCode} {
		for _, want := range []string{"order.created", "", "order.created", "ünï"} {
			if err := m.Scan(pgtype.TextOID, format, []byte(want), r); err != nil || got != want {
				t.Errorf("%q, %v, want %q", got, err, want)
			}
		}
	}
	src := []byte("order.created")
	if n := testing.AllocsPerRun(100, func() { _ = r.text(src) }); n != 0 {
		t.Errorf("a known text takes memory %v times", n)
	}
	if err := m.Scan(pgtype.TextOID, pgtype.BinaryFormatCode, nil, r); err == nil {
		t.Error("null was read as a text")
	}
	if err := m.Scan(pgtype.TextOID, pgtype.BinaryFormatCode, src, &got); err != nil || got != "order.created" {
		t.Errorf("%q, %v", got, err)
	}
}
