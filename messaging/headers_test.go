package messaging_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/backend-skeleton/relay/messaging"
)

func TestNewHeadersSortsAndLowers(t *testing.T) {
	t.Parallel()
	in := map[string]string{"X-Source": "web", "accept": "a", "Zone": "", "b": "ü"}
	h, err := messaging.NewHeaders(in)
	if err != nil {
		t.Fatal(err)
	}
	in["accept"] = "changed"
	var names []string
	for name := range h.All() {
		names = append(names, name)
	}
	if want := []string{"accept", "b", "x-source", "zone"}; !slices.Equal(names, want) || h.Len() != 4 {
		t.Errorf("names %v, want %v", names, want)
	}
	if v, ok := h.Get("X-SOURCE"); v != "web" || !ok {
		t.Errorf("Get: %q, %v", v, ok)
	}
	if v, _ := h.Get("accept"); v != "a" {
		t.Error("headers changed with the map they were made of")
	}
	if v, ok := h.Get("zone"); v != "" || !ok {
		t.Errorf("an empty value: %q, %v", v, ok)
	}
	if _, ok := h.Get("absent"); ok {
		t.Error("an absent header is found")
	}
}

func TestNewHeadersNamesTheHeaderNeverTheValue(t *testing.T) {
	t.Parallel()
	const secret = "s3cret"
	for name, wantName := range map[string]bool{
		"msg.id": true, "MSG.anything": true, "traceparent": true, "TraceState": true, "baggage": true,
		"Authorization": true, "proxy_authorization": true, "Cookie": true, "set-cookie": true, "Set_Cookie": true,
		"access_token": true, "Access-Token": true, "refresh-token": true, "API_KEY": true, "api-key": true,
		"password": true, "client-secret": true, "CLIENT_SECRET": true,
		"": false, "a b": false, "a\nb": false, "\xff": false, strings.Repeat("n", 129): false,
	} {
		_, err := messaging.NewHeaders(map[string]string{name: secret})
		switch {
		case !errors.Is(err, messaging.ErrHeaderRejected):
			t.Errorf("%q: error %v", name, err)
		case strings.Contains(err.Error(), secret):
			t.Errorf("%q: the error quotes the value", name)
		case wantName && !strings.Contains(err.Error(), strings.ToLower(name)):
			t.Errorf("%q: the error does not name it: %v", name, err)
		}
	}
	for what, value := range map[string]string{"nul": secret + "\x00", "cr": secret + "\r", "lf": secret + "\n", "utf-8": secret + "\xff", "size": strings.Repeat(secret, 700)} {
		_, err := messaging.NewHeaders(map[string]string{"x-header": value})
		if !errors.Is(err, messaging.ErrHeaderRejected) || !strings.Contains(err.Error(), "x-header") || strings.Contains(err.Error(), secret) {
			t.Errorf("%s: error %v", what, err)
		}
	}
}

func TestNewHeadersLimits(t *testing.T) {
	t.Parallel()
	many := func(n, valueSize int) map[string]string {
		kv := map[string]string{}
		for i := range n {
			kv[fmt.Sprintf("h%03d", i)] = strings.Repeat("v", valueSize)
		}
		return kv
	}
	for name, c := range map[string]struct {
		kv map[string]string
		ok bool
	}{
		"64":              {many(64, 1), true},
		"65":              {many(65, 1), false},
		"32768 bytes":     {many(8, 4092), true},
		"32776 bytes":     {many(8, 4093), false},
		"name 128":        {map[string]string{strings.Repeat("n", 128): ""}, true},
		"value 4096":      {map[string]string{"n": strings.Repeat("v", 4096)}, true},
		"value 4097":      {map[string]string{"n": strings.Repeat("v", 4097)}, false},
		"same but case":   {map[string]string{"Name": "a", "name": "b"}, false},
		"bytes of utf-8":  {map[string]string{"n": strings.Repeat("가", 1366)}, false},
		"msgs is no msg.": {map[string]string{"msgs": "", "message-id": ""}, true},
	} {
		if _, err := messaging.NewHeaders(c.kv); (err == nil) != c.ok || err != nil && !errors.Is(err, messaging.ErrHeaderRejected) {
			t.Errorf("%s: error %v", name, err)
		}
	}
}

func TestHeadersJSON(t *testing.T) {
	t.Parallel()
	var h messaging.Headers
	if err := json.Unmarshal([]byte(`{"B":"2","a":"1"}`), &h); err != nil {
		t.Fatal(err)
	}
	if data, err := json.Marshal(h); string(data) != `{"a":"1","b":"2"}` || err != nil {
		t.Errorf("%s, %v", data, err)
	}
	if data, err := json.Marshal(messaging.Headers{}); string(data) != `{}` || err != nil {
		t.Errorf("%s, %v", data, err)
	}
	for _, s := range []string{`{"a":1}`, `{"a":null}`, `{"a":{}}`, `{"a":["x"]}`, `[]`, `"a"`, `{"msg.id":"x"}`} {
		if err := json.Unmarshal([]byte(s), &h); !errors.Is(err, messaging.ErrHeaderRejected) {
			t.Errorf("%s: error %v", s, err)
		}
	}
}

func FuzzHeaders(f *testing.F) {
	f.Add("X-Source", "web", "x-source", "app")
	f.Add("İ", "a", "i̇", "b")
	f.Fuzz(func(t *testing.T, n1, v1, n2, v2 string) {
		h, err := messaging.NewHeaders(map[string]string{n1: v1, n2: v2})
		if err != nil {
			return
		}
		kv := maps.Collect(h.All())
		if len(kv) != h.Len() {
			t.Fatal("a name repeats")
		}
		again, err := messaging.NewHeaders(kv)
		if err != nil {
			t.Fatalf("checked headers are refused: %v", err)
		}
		if !maps.Equal(maps.Collect(again.All()), kv) {
			t.Fatal("headers changed when they were checked again")
		}
	})
}
