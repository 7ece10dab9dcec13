package messaging

import (
	"encoding/json"
	"iter"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Limits of user headers, in bytes of UTF-8.
const (
	MaxHeaders     = 64    // headers of one message
	MaxHeaderName  = 128   // one name
	MaxHeaderValue = 4096  // one value
	MaxHeaderBytes = 32768 // all names and values together
)

// Headers are the user headers of a message: immutable, sorted by name, names in
// lower case. The zero value holds none. Put no personal data into headers.
type Headers struct{ kv []string } // name, value, name, value ...

// NewHeaders checks and copies kv. Names are compared without case; reserved
// names (all that begin with "msg.", and traceparent, tracestate, baggage),
// names of credentials, values that are not one line of UTF-8 text, and whatever
// passes a limit are an [ErrHeaderRejected] that names the header, never its
// value.
func NewHeaders(kv map[string]string) (Headers, error) {
	if len(kv) == 0 {
		return Headers{}, nil
	}
	if len(kv) > MaxHeaders {
		return Headers{}, headerRejected("", "there are "+strconv.Itoa(len(kv))+" headers, the limit is "+strconv.Itoa(MaxHeaders))
	}
	names := make([]string, 0, len(kv))
	for name := range kv {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int {
		if c := strings.Compare(strings.ToLower(a), strings.ToLower(b)); c != 0 {
			return c
		}
		return strings.Compare(a, b)
	})
	h := Headers{kv: make([]string, 0, 2*len(kv))}
	for _, name := range names {
		lower := name
		if utf8.ValidString(name) { // else lowering would make it valid in silence
			lower = strings.ToLower(name)
		}
		h.kv = append(h.kv, lower, kv[name])
	}
	if err := checkHeaders(h.kv); err != nil {
		return Headers{}, err
	}
	return h, nil
}

// checkHeaders holds the rules for names and values in the order of the names.
func checkHeaders(kv []string) error {
	total := 0
	for i := 0; i < len(kv); i += 2 {
		if err := CheckHeader(kv[i], kv[i+1]); err != nil {
			return err
		}
		if i > 0 && kv[i-2] == kv[i] {
			return headerRejected(kv[i], "is given twice in different letter case")
		}
		total += len(kv[i]) + len(kv[i+1])
	}
	if total > MaxHeaderBytes {
		return headerRejected("", "the headers have "+strconv.Itoa(total)+" bytes, the limit is "+strconv.Itoa(MaxHeaderBytes))
	}
	return nil
}

// CheckHeader holds the rules for one user header.
func CheckHeader(name, value string) error {
	switch {
	case name == "":
		return headerRejected("", "a header has no name")
	case len(name) > MaxHeaderName:
		return headerRejected("", "a name has "+strconv.Itoa(len(name))+" bytes, the limit is "+strconv.Itoa(MaxHeaderName))
	case !utf8.ValidString(name) || strings.ContainsFunc(name, func(r rune) bool { return unicode.IsControl(r) || unicode.IsSpace(r) }):
		return headerRejected("", "a name is not UTF-8 text without spaces and control characters")
	case ReservedHeader(name):
		return headerRejected(name, "is reserved: the platform writes it")
	case ForbiddenHeader(name):
		return headerRejected(name, "is forbidden: credentials do not travel in headers")
	case len(value) > MaxHeaderValue:
		return headerRejected(name, "has "+strconv.Itoa(len(value))+" bytes, the limit is "+strconv.Itoa(MaxHeaderValue))
	case !utf8.ValidString(value):
		return headerRejected(name, "is not valid UTF-8")
	case strings.ContainsAny(value, "\x00\r\n"):
		return headerRejected(name, "has a NUL or a line break")
	}
	return nil
}

// ReservedHeader tells whether only the platform may write the name, in any
// letter case.
func ReservedHeader(name string) bool {
	if len(name) >= 4 && strings.EqualFold(name[:4], "msg.") {
		return true
	}
	return strings.EqualFold(name, "traceparent") || strings.EqualFold(name, "tracestate") || strings.EqualFold(name, "baggage")
}

var forbiddenHeaders = map[string]bool{
	"authorization": true, "proxy-authorization": true, "cookie": true, "set-cookie": true,
	"access-token": true, "refresh-token": true, "api-key": true, "password": true, "client-secret": true,
}

// ForbiddenHeader tells whether the name is that of a credential, in any letter
// case and with hyphens and underscores treated alike.
func ForbiddenHeader(name string) bool {
	return forbiddenHeaders[strings.ReplaceAll(strings.ToLower(name), "_", "-")]
}

// Get gives the value of a header; the name is compared without case.
func (h Headers) Get(name string) (string, bool) {
	lower := strings.ToLower(name)
	for i := 0; i < len(h.kv); i += 2 {
		if h.kv[i] == lower {
			return h.kv[i+1], true
		}
	}
	return "", false
}

// Len is the number of headers.
func (h Headers) Len() int { return len(h.kv) / 2 }

// within holds the headers against the lower limits of a profile; 0 asks nothing.
func (h Headers) within(count, size int) error {
	if count > 0 && h.Len() > count {
		return headerRejected("", "there are "+strconv.Itoa(h.Len())+" headers, the limit is "+strconv.Itoa(count))
	}
	if size <= 0 {
		return nil
	}
	total := 0
	for _, text := range h.kv {
		total += len(text)
	}
	if total > size {
		return headerRejected("", "the headers have "+strconv.Itoa(total)+" bytes, the limit is "+strconv.Itoa(size))
	}
	return nil
}

// All yields the headers in ascending order of their names.
func (h Headers) All() iter.Seq2[string, string] {
	return func(yield func(string, string) bool) {
		for i := 0; i < len(h.kv); i += 2 {
			if !yield(h.kv[i], h.kv[i+1]) {
				return
			}
		}
	}
}

// MarshalJSON gives one JSON object of strings, the form of the outbox's headers
// column.
func (h Headers) MarshalJSON() ([]byte, error) {
	if len(h.kv) == 0 {
		return []byte("{}"), nil
	}
	m := make(map[string]string, h.Len())
	for name, value := range h.All() {
		m[name] = value
	}
	return json.Marshal(m)
}

// UnmarshalJSON reads and checks one JSON object whose values are all strings.
func (h *Headers) UnmarshalJSON(data []byte) error {
	if string(data) == "{}" || string(data) == "null" {
		*h = Headers{}
		return nil
	}
	if kv, ok := plainHeaders(data); ok {
		if err := checkHeaders(kv); err != nil {
			return err
		}
		*h = Headers{kv: kv}
		return nil
	}
	var m map[string]*string
	if err := json.Unmarshal(data, &m); err != nil { // its text may quote a value
		return headerRejected("", "the headers are not one JSON object of strings")
	}
	kv := make(map[string]string, len(m))
	for name, value := range m {
		if value == nil {
			return headerRejected("", "a header is null")
		}
		kv[name] = *value
	}
	parsed, err := NewHeaders(kv)
	if err != nil {
		return err
	}
	*h = parsed
	return nil
}
