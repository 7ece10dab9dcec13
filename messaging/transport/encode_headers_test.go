package transport_test

import (
	"flag"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/backend-skeleton/relay/messaging"
	"github.com/backend-skeleton/relay/messaging/transport"
)

var update = flag.Bool("update", false, "write the golden file anew")

const (
	testID      = "01890a5d-ac96-774b-bcce-b302099a8057"
	testCause   = "01890a5d-ac96-774b-bcce-b302099a8058"
	testRedrive = "01890a5d-ac96-774b-bcce-b302099a8059"
	testReplay  = "01890a5d-ac96-774b-bcce-b302099a805a"
)

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func required() transport.WireFields {
	return transport.WireFields{
		ID: must(messaging.ParseMessageID(testID)), Type: "order.created", SchemaVersion: 1, Producer: "orders",
		ProducedAt:  time.Date(2026, 3, 1, 12, 30, 0, 0, time.FixedZone("", 9*3600)),
		ContentType: "application/json",
	}
}

func full() transport.WireFields {
	f := required()
	f.SchemaVersion = 12
	f.OccurredAt = time.Date(2026, 3, 1, 3, 29, 59, 123456789, time.UTC)
	f.Correlation, f.Causation = "checkout-7", must(messaging.ParseCausationID(testCause))
	f.Tenant, f.PartitionKey, f.OrderingKey = "kr", "shard-3", "order-주문"
	f.SchemaReference = `{"registry":"main","subject":"order.created","version":2,"id":41}`
	f.ClaimCheck = `{"store":"s","objectId":"o"}`
	f.RedriveID, f.RedriveCount = must(messaging.ParseRedriveID(testRedrive)), 2
	f.ReplayID = must(messaging.ParseReplayID(testReplay))
	f.Trace = messaging.TraceContext{Parent: "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", State: "a=b", Baggage: "k=v"}
	f.Headers = must(messaging.NewHeaders(map[string]string{"X-Source": "web", "empty": "", "accept-language": "ko"}))
	return f
}

// The bytes on the wire are a contract with readers in other languages: a change
// here breaks them.
func TestEncodeHeadersGolden(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	for _, f := range []transport.WireFields{required(), full()} {
		for _, h := range transport.EncodeHeaders(&f) {
			b.WriteString(h.Name + ": " + string(h.Value) + "\n")
		}
		b.WriteString("--\n")
	}
	const golden = "testdata/headers.golden"
	if *update {
		if err := os.WriteFile(golden, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if b.String() != string(want) {
		t.Errorf("headers on the wire changed:\n%s\nwant:\n%s", b.String(), want)
	}
}

func TestEncodeHeadersAbsentIsAbsent(t *testing.T) {
	t.Parallel()
	f := required()
	headers := transport.EncodeHeaders(&f)
	if len(headers) != 6 {
		t.Errorf("%d headers of a minimal message, want the six required", len(headers))
	}
	for _, h := range headers {
		if len(h.Value) == 0 {
			t.Errorf("header %s is empty", h.Name)
		}
	}
}

func TestEncodeHeadersValuesDoNotOverlap(t *testing.T) {
	t.Parallel()
	f := full()
	headers := transport.EncodeHeaders(&f)
	_ = append(headers[0].Value, "overwritten"...)
	if got := string(headers[1].Value); got != "order.created" {
		t.Errorf("an append to one value reached the next: %q", got)
	}
}

func TestEncodeHeadersAllocations(t *testing.T) {
	f := full()
	f.RedriveID, f.ReplayID = messaging.RedriveID{}, messaging.ReplayID{}
	if n := testing.AllocsPerRun(100, func() { transport.EncodeHeaders(&f) }); n > 2 {
		t.Errorf("%v allocations, want 2: the header list and the values", n)
	}
}

func TestCheckNamesTheMissingHeader(t *testing.T) {
	t.Parallel()
	for header, spoil := range map[string]func(*transport.WireFields){
		transport.HeaderID:            func(f *transport.WireFields) { f.ID = messaging.MessageID{} },
		transport.HeaderType:          func(f *transport.WireFields) { f.Type = "" },
		transport.HeaderSchemaVersion: func(f *transport.WireFields) { f.SchemaVersion = 0 },
		transport.HeaderProducer:      func(f *transport.WireFields) { f.Producer = "" },
		transport.HeaderProducedAt:    func(f *transport.WireFields) { f.ProducedAt = time.Time{} },
		transport.HeaderContentType:   func(f *transport.WireFields) { f.ContentType = "" },
	} {
		f := full()
		spoil(&f)
		if err := f.Check(); err == nil || !strings.Contains(err.Error(), header) {
			t.Errorf("without %s: error %v", header, err)
		}
	}
	f := required()
	if err := f.Check(); err != nil {
		t.Errorf("complete fields: %v", err)
	}
}

func TestRecordKey(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		ordering, partition, want string
		null                      bool
	}{
		{"o", "p", "o", false},
		{"o", "", "o", false},
		{"", "p", "p", false},
		{"", "", "", true},
	} {
		key, null := transport.RecordKey(c.ordering, c.partition)
		if string(key) != c.want || null != c.null {
			t.Errorf("RecordKey(%q, %q) = %q, %v", c.ordering, c.partition, key, null)
		}
	}
}

func BenchmarkEncodeHeaders(b *testing.B) {
	f := full()
	b.ReportAllocs()
	for b.Loop() {
		transport.EncodeHeaders(&f)
	}
}

func names(headers []transport.Header) []string {
	var out []string
	for _, h := range headers {
		out = append(out, h.Name)
	}
	return out
}

func TestEncodeHeadersOrder(t *testing.T) {
	t.Parallel()
	f := full()
	got := names(transport.EncodeHeaders(&f))
	firstTrace := slices.Index(got, transport.HeaderTraceParent)
	for i, name := range got {
		switch {
		case i < firstTrace && !strings.HasPrefix(name, "msg."):
			t.Errorf("%s stands before trace context", name)
		case i >= firstTrace && strings.HasPrefix(name, "msg."):
			t.Errorf("%s stands behind trace context", name)
		}
	}
	if user := got[firstTrace+3:]; !slices.IsSorted(user) || len(user) != 3 {
		t.Errorf("user headers %v are not sorted", user)
	}
}
