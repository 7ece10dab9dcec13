package json_test

import (
	stdjson "encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/backend-skeleton/relay/messaging"
	"github.com/backend-skeleton/relay/messaging/codec/json"
)

// Digits stay exact through decode and re-encode, or there is a typed error; never another value.
func TestC39_DigitsStayExact(t *testing.T) {
	t.Parallel()
	c := newCodec(t, json.Config{})
	for _, digits := range []string{"2882429806056571124", "9223372036854775807", "18446744073709551615", "9007199254740993", "1e400", "-0", "1.10"} {
		body := `{"n":` + digits + `}`
		var open map[string]any
		if err := decode(c, body, &open); err != nil {
			t.Fatalf("%s: %v", digits, err)
		}
		if back, err := encode(c, open); err != nil || back != body {
			t.Errorf("through a map %s became %s, %v", digits, back, err)
		}
		var raw map[string]stdjson.RawMessage
		if err := decode(c, body, &raw); err != nil || string(raw["n"]) != digits {
			t.Errorf("as raw JSON %s became %s, %v", digits, raw["n"], err)
		}
		var signed struct {
			N int64 `json:"n"`
		}
		if err := decode(c, body, &signed); err == nil {
			if back, err := encode(c, signed); err != nil || back != body && digits != "-0" {
				t.Errorf("through int64 %s became %s, %v", digits, back, err)
			}
		} else if !errors.Is(err, messaging.ErrSerialization) {
			t.Errorf("%s: %v", digits, err)
		}
		var unsigned struct {
			N uint64 `json:"n"`
		}
		if err := decode(c, body, &unsigned); err == nil {
			if back, err := encode(c, unsigned); err != nil || back != body {
				t.Errorf("through uint64 %s became %s, %v", digits, back, err)
			}
		} else if !errors.Is(err, messaging.ErrSerialization) {
			t.Errorf("%s: %v", digits, err)
		}
	}
}

// spelled is a value whose JSON text a test writes.
type spelled string

func (s spelled) MarshalJSON() ([]byte, error) { return []byte(s), nil }

// A bad body has one verdict, when it is consumed and when it is published.
func TestC39_BadBodiesHaveOneVerdict(t *testing.T) {
	t.Parallel()
	c := newCodec(t, json.Config{})
	for name, tc := range map[string]struct{ body, code string }{
		"a key twice":          {`{"a":1,"a":2}`, messaging.CodeDuplicateKey},
		"too deep":             {strings.Repeat("[", 1001) + strings.Repeat("]", 1001), messaging.CodePayloadTooDeep},
		"half a pair":          {`"\ud800"`, messaging.CodeMalformedPayload},
		"the other half":       {`{"\udc00":1}`, messaging.CodeMalformedPayload},
		"a pair that is none":  {`"\ud800\u0041"`, messaging.CodeMalformedPayload},
		"half a pair, escaped": {`"\\ud800 \ud83d\ude00 \ud83d"`, messaging.CodeMalformedPayload},
	} {
		var f *messaging.Failure
		if err := decode(c, tc.body, new(any)); !errors.As(err, &f) || f.Code != tc.code || f.Category != messaging.CategoryDeserialization {
			t.Errorf("%s, consumed: %v", name, err)
		}
		if _, err := encode(c, spelled(tc.body)); !errors.As(err, &f) || f.Code != tc.code || f.Category != messaging.CategoryValidation {
			t.Errorf("%s, published: %v", name, err)
		}
	}
	for name, body := range map[string]string{"not a number": `{"a":NaN}`, "something behind": `{"a":1}x`, "a mark at the front": "\ufeff{}", "not UTF-8": "\"\xff\""} {
		var f *messaging.Failure
		if err := decode(c, body, new(any)); !errors.As(err, &f) || f.Code != messaging.CodeMalformedPayload {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := encode(c, "a\xffb"); !errors.Is(err, messaging.ErrSerialization) {
		t.Errorf("text that is not UTF-8, published: %v", err)
	}
	for _, fine := range []string{`"\ud83d\ude00"`, `"\\ud800"`, `"\u0041"`, `{"\ud83d\ude00":"x"}`} {
		if err := decode(c, fine, new(any)); err != nil {
			t.Errorf("%s: %v", fine, err)
		}
	}
}
