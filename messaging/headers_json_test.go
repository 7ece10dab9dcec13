package messaging

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
)

// byMap is the general way.
func byMap(data []byte) (Headers, error) {
	var m map[string]string
	if err := json.Unmarshal(data, &m); err != nil {
		return Headers{}, err
	}
	return NewHeaders(m)
}

var headerTexts = []string{
	`{}`, ` { } `, `null`, `{"a": "1"}`, `{"b":"2","a":"1"}`, `{"x-lang": "de", "x-build": "1", "a": ""}`, ` {"a" :	"1"` + "\n} ",
	`{"a": "1", "a": "2"}`, `{"A": "1", "a": "2"}`, `{"X-Lang": "de"}`, `{"a": "line\nbreak"}`, `{"a": "tab\t"}`, `{"\u0061": "1"}`, `{"é": "ü"}`, `{"É": "ü"}`,
	`{"a": 1}`, `{"a": null}`, `{"a": {"b": "c"}}`, `{"a": "1",}`, `{"a": "1"}}`, `{"a": "1"`, `{"a"}`, `{,}`, `["a"]`, `"a"`, ``, `{"": "1"}`,
	`{"msg.id": "1"}`, `{"traceparent": "1"}`, `{"password": "1"}`, `{"a": "` + "\x01" + `"}`, `{"a": "` + "\xff" + `"}`, `{"a b": "1"}`,
	`{"a": "` + strings.Repeat("v", MaxHeaderValue) + `"}`, `{"a": "` + strings.Repeat("v", MaxHeaderValue+1) + `"}`,
	`{"` + strings.Repeat("n", MaxHeaderName+1) + `": "1"}`,
}

func TestHeadersReadTheSameWayByEveryPath(t *testing.T) {
	t.Parallel()
	many := func(n int) string {
		m := map[string]string{}
		for i := range n {
			m["h-"+strings.Repeat("x", i)] = "v"
		}
		b, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	for _, text := range append(slices.Clone(headerTexts), many(MaxHeaders), many(MaxHeaders+1)) {
		sameHeaders(t, text)
	}
}

func sameHeaders(t *testing.T, text string) {
	t.Helper()
	var got Headers
	err := got.UnmarshalJSON([]byte(text))
	want, errWant := byMap([]byte(text))
	if strings.Contains(text, "null") && text != "null" {
		errWant = ErrHeaderRejected // the map takes it for an empty text
	}
	if (err == nil) != (errWant == nil) {
		t.Fatalf("%.80q: %v, the general way says %v", text, err, errWant)
	}
	if err == nil && !slices.Equal(got.kv, want.kv) {
		t.Errorf("%.80q: %q, the general way says %q", text, got.kv, want.kv)
	}
}

func FuzzHeadersReadTheSameWay(f *testing.F) {
	for _, text := range headerTexts {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if !strings.Contains(text, "null") {
			sameHeaders(t, text)
		}
	})
}
