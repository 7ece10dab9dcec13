package transport_test

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/backend-skeleton/relay/messaging"
	"github.com/backend-skeleton/relay/messaging/transport"
)

func TestDecodeHeadersGivesBackWhatWasEncoded(t *testing.T) {
	t.Parallel()
	for _, f := range []transport.WireFields{required(), full()} {
		got, err := transport.DecodeHeaders(transport.EncodeHeaders(&f))
		if err != nil {
			t.Fatal(err)
		}
		f.ProducedAt = f.ProducedAt.UTC()
		f.OccurredAt = f.OccurredAt.UTC().Truncate(time.Microsecond)
		if !reflect.DeepEqual(got, f) {
			t.Errorf("got %+v, want %+v", got, f)
		}
	}
}

func TestDecodeHeadersForeign(t *testing.T) {
	t.Parallel()
	secret := "s3cret"
	for name, headers := range map[string][]transport.Header{
		"none":         nil,
		"no type":      {{Name: "msg.id", Value: []byte(testID)}},
		"no id":        {{Name: "msg.type", Value: []byte("order.created")}},
		"upper case":   {{Name: "msg.id", Value: []byte(strings.ToUpper(testID))}, {Name: "msg.type", Value: []byte("order.created")}},
		"version 4":    {{Name: "msg.id", Value: []byte("9b2c1f9e-5a3d-4f5e-8a1b-2c3d4e5f6a7b")}, {Name: "msg.type", Value: []byte("order.created")}},
		"bad id":       {{Name: "msg.id", Value: []byte(secret)}, {Name: "msg.type", Value: []byte("order.created")}},
		"bad type":     {{Name: "msg.id", Value: []byte(testID)}, {Name: "msg.type", Value: []byte(secret)}},
		"two ids":      {{Name: "msg.id", Value: []byte(testID)}, {Name: "msg.id", Value: []byte(testID)}, {Name: "msg.type", Value: []byte("order.created")}},
		"not in utf-8": {{Name: "\xff", Value: []byte{0xff}}},
	} {
		_, err := transport.DecodeHeaders(headers)
		if !errors.Is(err, transport.ErrForeign) {
			t.Errorf("%s: error %v, want ErrForeign", name, err)
		} else if strings.Contains(err.Error(), secret) || strings.Contains(err.Error(), testID) {
			t.Errorf("%s: the error quotes a value: %v", name, err)
		}
	}
}

func TestDecodeHeadersMalformedNamesTheHeader(t *testing.T) {
	t.Parallel()
	for name, value := range map[string]string{
		transport.HeaderSchemaVersion: "0",
		transport.HeaderProducedAt:    "yesterday",
		transport.HeaderOccurredAt:    "2026-03-01",
		transport.HeaderCausation:     "not-an-id",
		transport.HeaderRedriveCount:  "-1",
		transport.HeaderOrderingKey:   strings.Repeat("k", 321),
	} {
		f := full()
		headers := transport.EncodeHeaders(&f)
		for i := range headers {
			if headers[i].Name == name {
				headers[i].Value = []byte(value)
			}
		}
		got, err := transport.DecodeHeaders(headers)
		if !errors.Is(err, messaging.ErrValidation) || errors.Is(err, transport.ErrForeign) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: error %v", name, err)
		} else if strings.Contains(err.Error(), value) && len(value) > 2 {
			t.Errorf("%s: the error quotes the value: %v", name, err)
		}
		if got.ID != f.ID || got.Type != f.Type {
			t.Errorf("%s: the other fields were not read", name)
		}
	}
}

// Foreign headers of any form must never stop consumption.
func TestDecodeHeadersSkipsWhatNoUserCouldWrite(t *testing.T) {
	t.Parallel()
	f := required()
	headers := append(transport.EncodeHeaders(&f),
		transport.Header{Name: "Good", Value: []byte("1")},
		transport.Header{Name: "good", Value: []byte("2")},
		transport.Header{Name: "authorization", Value: []byte("x")},
		transport.Header{Name: "binary", Value: []byte{0xff, 0}},
		transport.Header{Name: "large", Value: make([]byte, 5000)},
		transport.Header{Name: "", Value: nil},
		transport.Header{Name: "msg.dlq-code", Value: []byte("TOO_LARGE")},
		transport.Header{Name: "msg.of-the-future", Value: []byte{0xff}},
	)
	got, err := transport.DecodeHeaders(headers)
	if err != nil {
		t.Fatal(err)
	}
	if v, _ := got.Headers.Get("good"); v != "1" || got.Headers.Len() != 1 {
		t.Errorf("user headers %+v, want the first good alone", got.Headers)
	}
}

func TestDecodeHeadersOverTheLimitsStillReadsTheMessage(t *testing.T) {
	t.Parallel()
	f := required()
	headers := transport.EncodeHeaders(&f)
	for i := range 200 {
		headers = append(headers, transport.Header{Name: "h" + strings.Repeat("x", i%100) + string(rune('a'+i%26)), Value: make([]byte, 4000)})
	}
	for i := range headers[6:] {
		for j := range headers[6+i].Value {
			headers[6+i].Value[j] = 'v'
		}
	}
	got, err := transport.DecodeHeaders(headers)
	if err != nil || got.Headers.Len() == 0 {
		t.Errorf("%d headers read, error %v", got.Headers.Len(), err)
	}
}

func FuzzDecodeHeaders(f *testing.F) {
	f.Add("msg.id", []byte(testID), "msg.type", []byte("order.created"), "x", []byte("y"))
	f.Add("msg.produced-at", []byte("2026-03-01T03:30:00.000000Z"), "msg.redrive-count", []byte("0"), "İ", []byte("\xff"))
	f.Fuzz(func(t *testing.T, n1 string, v1 []byte, n2 string, v2 []byte, n3 string, v3 []byte) {
		base := required()
		for _, headers := range [][]transport.Header{
			{{Name: n1, Value: v1}, {Name: n2, Value: v2}, {Name: n3, Value: v3}},
			append(transport.EncodeHeaders(&base), transport.Header{Name: n1, Value: v1}, transport.Header{Name: n2, Value: v2}, transport.Header{Name: n3, Value: v3}),
		} {
			got, err := transport.DecodeHeaders(headers)
			if err != nil {
				continue
			}
			// What was read once is written and read again without a change.
			again, err := transport.DecodeHeaders(transport.EncodeHeaders(&got))
			if err != nil {
				t.Fatalf("what was read cannot be written: %v", err)
			}
			got.ProducedAt, got.OccurredAt = got.ProducedAt.Truncate(time.Microsecond), got.OccurredAt.Truncate(time.Microsecond)
			if !reflect.DeepEqual(got, again) {
				t.Fatalf("got %+v, again %+v", got, again)
			}
		}
	})
}
