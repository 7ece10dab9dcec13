package json_test

import (
	"context"
	stdjson "encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/backend-skeleton/relay/messaging"
	"github.com/backend-skeleton/relay/messaging/codec/json"
)

type order struct {
	ID     string         `json:"id"`
	Amount int8           `json:"amount"`
	Note   string         `json:"note,omitempty"`
	Extra  map[string]any `json:"extra,omitempty"`
}

func newCodec(t testing.TB, c json.Config) *json.Codec {
	t.Helper()
	codec, err := json.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return codec
}

func decode(c *json.Codec, data string, into any) error {
	return c.Decode(context.Background(), "order.created", 1, nil, []byte(data), into)
}

func encode(c *json.Codec, v any) (string, error) {
	data, _, err := c.Encode(context.Background(), "order.created", 1, v)
	return string(data), err
}

func TestEncode(t *testing.T) {
	t.Parallel()
	c := newCodec(t, json.Config{})
	got, err := encode(c, order{ID: "a<b>&c", Amount: 3})
	if want := `{"id":"a<b>&c","amount":3}`; got != want || err != nil {
		t.Errorf("got %s, %v; want %s", got, err, want)
	}
	var back order
	if err := decode(c, got, &back); err != nil || back.ID != "a<b>&c" {
		t.Errorf("back %+v, %v", back, err)
	}
}

type twice struct{}

func (twice) MarshalJSON() ([]byte, error) { return []byte(`{"a":1,"a":2}`), nil }

func TestEncodeRefuses(t *testing.T) {
	t.Parallel()
	c := newCodec(t, json.Config{MaxBytes: 100, MaxDepth: 3})
	for name, v := range map[string]any{
		"nil":             nil,
		"nil pointer":     (*order)(nil),
		"no JSON form":    math.Inf(1),
		"channel":         make(chan int),
		"own duplicates":  twice{},
		"deeper than max": [][][][]int{{{{1}}}},
	} {
		_, err := encode(c, v)
		if !errors.Is(err, messaging.ErrSerialization) {
			t.Errorf("%s: error %v", name, err)
		}
	}
	_, err := encode(c, strings.Repeat("x", 99))
	if !errors.Is(err, messaging.ErrTooLarge) || !strings.Contains(fmt.Sprint(err), "101 bytes, the limit is 100") {
		t.Errorf("over the limit: %v", err)
	}
	if _, err := encode(c, strings.Repeat("x", 98)); err != nil {
		t.Errorf("at the limit: %v", err)
	}
}

func TestDecodeRefuses(t *testing.T) {
	t.Parallel()
	const secret = "s3cret"
	c := newCodec(t, json.Config{MaxDepth: 4, MaxBytes: 200, UnknownFields: json.RefuseUnknownFields})
	for name, tc := range map[string]struct{ data, code string }{
		"empty":                  {"", messaging.CodeMalformedPayload},
		"not json":               {secret, messaging.CodeMalformedPayload},
		"null":                   {" null ", messaging.CodeMalformedPayload},
		"two values":             {`{"id":"1"} {"id":"2"}`, messaging.CodeMalformedPayload},
		"trailing bytes":         {`{"id":"1"}x`, messaging.CodeMalformedPayload},
		"not utf-8":              {"{\"id\":\"\xff\"}", messaging.CodeMalformedPayload},
		"wrong type":             {`{"id":"1","amount":"` + secret + `"}`, messaging.CodeMalformedPayload},
		"number that overflows":  {`{"amount":128}`, messaging.CodeMalformedPayload},
		"duplicate key":          {`{"id":"1","amount":1,"id":"2"}`, messaging.CodeDuplicateKey},
		"duplicate by escape":    {`{"id":"1","\u0069d":"2"}`, messaging.CodeDuplicateKey},
		"duplicate nested":       {`{"extra":{"a":[{"b":1,"b":2}]}}`, messaging.CodeDuplicateKey},
		"duplicate after nested": {`{"extra":{"a":1},"extra":{}}`, messaging.CodeDuplicateKey},
		"unknown field":          {`{"` + secret + `":1}`, messaging.CodeUnknownField},
		"too deep":               {`{"extra":{"a":[[[1]]]}}`, messaging.CodePayloadTooDeep},
		"too large":              {`{"id":"` + strings.Repeat("x", 200) + `"}`, messaging.CodeTooLarge},
	} {
		var into order
		err := decode(c, tc.data, &into)
		var f *messaging.Failure
		switch {
		case !errors.Is(err, messaging.ErrSerialization) || !errors.As(err, &f):
			t.Errorf("%s: error %v", name, err)
		case f.Code != tc.code || f.Category != messaging.CategoryDeserialization || f.Retryable:
			t.Errorf("%s: failure %+v, want code %s", name, f, tc.code)
		case strings.Contains(err.Error(), secret) || strings.Contains(err.Error(), "128"):
			t.Errorf("%s: the error quotes the payload: %v", name, err)
		}
	}
}

func TestDecodeAccepts(t *testing.T) {
	t.Parallel()
	c := newCodec(t, json.Config{MaxDepth: 4})
	for name, data := range map[string]string{
		"unknown field":         `{"id":"1","added":{"later":[1]}}`,
		"same key in siblings":  `{"extra":{"a":{"k":1},"b":{"k":1}}}`,
		"key and value alike":   `{"id":"id","note":"id"}`,
		"brackets in strings":   `{"id":"{[{[{[{[\"{","note":"}]"}`,
		"keys of another case":  `{"extra":{"a":1,"A":2}}`,
		"space around":          " \n{\"id\" : \"1\" , \"amount\" : 2}\t",
		"exactly the max depth": `{"extra":{"a":[[1]]}}`,
	} {
		var into order
		if err := decode(c, data, &into); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	var s string
	if err := decode(c, `"alone"`, &s); err != nil || s != "alone" {
		t.Errorf("a string alone: %q, %v", s, err)
	}
}

func TestDecodeManyKeys(t *testing.T) {
	t.Parallel()
	c := newCodec(t, json.Config{})
	var b strings.Builder
	b.WriteString(`{"extra":{`)
	for i := range 100 {
		fmt.Fprintf(&b, `"k%d":{"k":1},`, i)
	}
	for _, last := range []string{"k0", "k15", "k16", "k99"} {
		if err := decode(c, b.String()+`"`+last+`":0}}`, new(order)); err == nil {
			t.Errorf("%s given twice among 100 keys is accepted", last)
		}
	}
	if err := decode(c, b.String()+`"other":0}}`, new(order)); err != nil {
		t.Error(err)
	}
}

func TestNewRefusesNegativeLimits(t *testing.T) {
	t.Parallel()
	for _, c := range []json.Config{{MaxBytes: -1}, {MaxDepth: -1}, {UnknownFields: 9}} {
		if _, err := json.New(c); !errors.Is(err, messaging.ErrConfiguration) {
			t.Errorf("%+v: error %v", c, err)
		}
	}
}

// hasTwice is the slow and simple twin of the codec's check.
func hasTwice(data []byte) bool {
	d := stdjson.NewDecoder(strings.NewReader(string(data)))
	var value func() bool
	value = func() bool {
		token, err := d.Token()
		if err != nil {
			return false
		}
		switch token {
		case stdjson.Delim('{'):
			seen := map[string]bool{}
			for d.More() {
				key, _ := d.Token()
				name, _ := key.(string)
				if seen[name] {
					return true
				}
				seen[name] = true
				if value() {
					return true
				}
			}
			_, _ = d.Token()
		case stdjson.Delim('['):
			for d.More() {
				if value() {
					return true
				}
			}
			_, _ = d.Token()
		}
		return false
	}
	return value()
}

func FuzzDecode(f *testing.F) {
	for _, seed := range []string{`{"id":"1","amount":1}`, `{"a":1,"a":2}`, `[{"\u0061":{}},"\"",{}]`, `{"extra":{"a":[1,{"b":null}]}}`, "", `"`, `{"a":"\\"}`} {
		f.Add(seed)
	}
	c := newCodec(f, json.Config{})
	f.Fuzz(func(t *testing.T, data string) {
		var v any
		err := decode(c, data, &v)
		var failure *messaging.Failure
		if err != nil && !errors.As(err, &failure) {
			t.Fatalf("an error without failure: %v", err)
		}
		if err == nil && hasTwice([]byte(data)) {
			t.Fatal("a duplicate key passed")
		}
		if failure != nil && failure.Code == messaging.CodeDuplicateKey && !hasTwice([]byte(data)) {
			t.Fatal("a duplicate key was seen where there is none")
		}
		if err != nil || v == nil {
			return
		}
		again, encodeErr := encode(c, v)
		if encodeErr != nil {
			t.Fatalf("what was read cannot be written: %v", encodeErr)
		}
		if err := decode(c, again, &v); err != nil {
			t.Fatalf("what was written cannot be read: %v", err)
		}
	})
}

func BenchmarkDecode(b *testing.B) {
	c := newCodec(b, json.Config{})
	data := []byte(`{"id":"0190-1234","amount":12,"note":"a note of some length","extra":{"a":[1,2,3],"b":{"c":"d"}}}`)
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	for b.Loop() {
		var o order
		if err := c.Decode(context.Background(), "order.created", 1, nil, data, &o); err != nil {
			b.Fatal(err)
		}
	}
}
