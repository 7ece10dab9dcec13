package json_test

import (
	stdjson "encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/backend-skeleton/relay/messaging"
	"github.com/backend-skeleton/relay/messaging/codec/json"
)

type line struct {
	Cents int64 `json:"cents"`
}

type invoice struct {
	line
	ID    string          `json:"id"`
	Lines []*line         `json:"lines"`
	ByDay map[string]line `json:"byDay"`
	Notes map[string]string
	Next  *invoice           `json:"next"`
	Open  any                `json:"open"`
	Raw   stdjson.RawMessage `json:"raw"`
}

type spelledTwice struct {
	Lower int `json:"id"`
	Upper int `json:"ID"`
}

// Two keys that the decoder would read into one field are one key given twice; what stands in a map is the sender's.
func TestKeysThatMeanOneField(t *testing.T) {
	t.Parallel()
	c := newCodec(t, json.Config{})
	var many strings.Builder
	for i := range 40 {
		fmt.Fprintf(&many, `"n%d":0,`, i)
	}
	for body, refused := range map[string]bool{
		`{"id":"1","ID":"2"}`:                           true,
		`{"Id":"1","iD":"2"}`:                           true,
		`{"cents":1,"CENTS":100}`:                       true,
		`{"lines":[{"cents":1},{"cents":1,"Cents":2}]}`: true,
		`{"byDay":{"mon":{"Cents":1,"cents":2}}}`:       true,
		`{"next":{"next":{"id":"1","\u0049d":"2"}}}`:    true,
		`{"line\u017f":[],"lines":[]}`:                  true, // a long s is an s without case
		`{` + many.String() + `"id":"1","Id":"2"}`:      true,
		`{"Id":"1"}`: false,
		`{"byDay":{"mon":{"cents":1},"Mon":{"cents":2}}}`:     false,
		`{"Notes":{"a":"x","A":"y"},"unknown":1,"Unknown":2}`: false,
		`{"id":"1","next":{"Id":"2"}}`:                        false,
		`{` + many.String() + `"id":"1"}`:                     false,
	} {
		var f *messaging.Failure
		err := decode(c, body, new(invoice))
		if got := errors.As(err, &f) && f.Code == messaging.CodeDuplicateKey; got != refused || err != nil && !refused {
			t.Errorf("%.60s: %v", body, err)
		}
	}
	if err := decode(c, `{"id":1,"ID":2}`, new(map[string]int)); err != nil {
		t.Errorf("into a map: %v", err)
	}
	var both spelledTwice
	if err := decode(c, `{"id":1,"ID":2}`, &both); err != nil || both.Lower != 1 || both.Upper != 2 {
		t.Errorf("a field for each: %+v, %v", both, err)
	}
	if text, err := encode(c, spelledTwice{1, 2}); err != nil || text != `{"id":1,"ID":2}` {
		t.Errorf("%s, %v", text, err)
	}
}
