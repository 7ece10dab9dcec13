package json_test

import (
	stdjson "encoding/json"
	"errors"
	"testing"

	"github.com/backend-skeleton/relay/messaging"
	"github.com/backend-skeleton/relay/messaging/codec/json"
)

// What can be read can be written again with equal meaning, and what was written can be read: digits and text stay.
func FuzzReadAndWriteAgain(f *testing.F) {
	for _, seed := range []string{
		`{"a":18446744073709551615,"b":[1.10,-0,1e400]}`, `"\ud83d\ude00"`, `"\ud800"`, `{"\ufffd":"\u0000"}`, `[[[[]]]]`, "\"\u2028\"", `{"a":{"a":{"a":null}}}`, `1E5`, `true`,
	} {
		f.Add(seed)
	}
	c := newCodec(f, json.Config{MaxDepth: 20})
	f.Fuzz(func(t *testing.T, data string) {
		var first any
		if decode(c, data, &first) != nil {
			return
		}
		text, err := encode(c, first)
		if errors.Is(err, messaging.ErrTooLarge) { // escapes may be longer than what they stand for
			return
		}
		if err != nil {
			t.Fatalf("%q was read and cannot be written: %v", data, err)
		}
		var second any
		if err := decode(c, text, &second); err != nil {
			t.Fatalf("%q was written and cannot be read: %v", text, err)
		}
		a, errA := stdjson.Marshal(first)
		b, errB := stdjson.Marshal(second)
		if errA != nil || errB != nil || string(a) != string(b) {
			t.Fatalf("%q became %q", a, b)
		}
	})
}
