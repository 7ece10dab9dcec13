package json

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/backend-skeleton/relay/messaging"
)

// check holds what the standard decoder lets pass: text that is not UTF-8 (it
// would be replaced in silence), a key written twice (the last would win, and
// other readers take the first), depth without a limit, and more than one value.
// t is the type that is read into, or was written.
func check(data []byte, maxDepth int, t reflect.Type) *messaging.Failure {
	if !utf8.Valid(data) {
		return refuse(messaging.CodeMalformedPayload, "the payload is not UTF-8")
	}
	if !json.Valid(data) {
		return refuse(messaging.CodeMalformedPayload, "the payload is not one JSON value")
	}
	if string(bytes.TrimSpace(data)) == "null" { // it would leave the target as it was
		return refuse(messaging.CodeMalformedPayload, "the payload is null")
	}
	w := walk{data: data, names: namesOf(t)}
	if f := w.run(maxDepth); f != nil {
		return f
	}
	if at := loneSurrogate(data); at >= 0 {
		return refuse(messaging.CodeMalformedPayload, "an escape is half of a surrogate pair, at byte "+strconv.Itoa(at))
	}
	return nil
}

// walk goes once over data that is known to be valid JSON, so that only strings
// and brackets need a look.
type walk struct {
	data   []byte
	names  *fieldNames
	levels []level
	keys   [][]byte // of all open objects, the innermost last
}

// level is one open object or array.
type level struct {
	object    bool
	wantKey   bool // the next string is a key
	firstKey  int  // where its keys begin
	manyNames map[string]struct{}
	near      [][]byte // keys that could mean a field that is spelled otherwise
}

func (w *walk) run(maxDepth int) *messaging.Failure {
	for i := 0; i < len(w.data); i++ {
		switch w.data[i] {
		case '{', '[':
			if len(w.levels) == maxDepth {
				return refuse(messaging.CodePayloadTooDeep, "the payload nests deeper than "+strconv.Itoa(maxDepth))
			}
			object := w.data[i] == '{'
			w.levels = append(w.levels, level{object: object, wantKey: object, firstKey: len(w.keys)})
		case '}', ']':
			if w.twins() {
				return refuse(messaging.CodeDuplicateKey, "an object names a field twice, in keys that differ in case alone, at byte "+strconv.Itoa(i))
			}
			w.keys = w.keys[:w.top().firstKey]
			w.levels = w.levels[:len(w.levels)-1]
		case ',':
			w.top().wantKey = w.top().object
		case '"':
			end := stringEnd(w.data, i)
			if len(w.levels) > 0 && w.top().wantKey {
				w.top().wantKey = false
				key := unquote(w.data[i : end+1])
				if w.names.near(key) {
					w.top().near = append(w.top().near, key)
				}
				if !w.addKey(key) {
					return refuse(messaging.CodeDuplicateKey, "an object names a key twice, at byte "+strconv.Itoa(i))
				}
			}
			i = end
		}
	}
	return nil
}

func (w *walk) top() *level { return &w.levels[len(w.levels)-1] }

// fewKeys is up to where comparing each with each is cheaper than a map.
const fewKeys = 16

// addKey reports whether the key is new in its object.
func (w *walk) addKey(key []byte) bool {
	l := w.top()
	if l.manyNames == nil {
		for _, k := range w.keys[l.firstKey:] {
			if bytes.Equal(k, key) {
				return false
			}
		}
		w.keys = append(w.keys, key)
		if len(w.keys)-l.firstKey > fewKeys {
			l.manyNames = make(map[string]struct{}, 4*fewKeys)
			for _, k := range w.keys[l.firstKey:] {
				l.manyNames[string(k)] = struct{}{}
			}
		}
		return true
	}
	if _, twice := l.manyNames[string(key)]; twice {
		return false
	}
	l.manyNames[string(key)] = struct{}{}
	return true
}

// twins tells whether a key of the innermost object that could mean a field has another beside it.
func (w *walk) twins() bool {
	l := w.top()
	for _, near := range l.near {
		same := 0
		if l.manyNames == nil {
			for _, key := range w.keys[l.firstKey:] {
				if bytes.EqualFold(key, near) {
					same++
				}
			}
		}
		for key := range l.manyNames {
			if strings.EqualFold(key, string(near)) {
				same++
			}
		}
		if same > 1 {
			return true
		}
	}
	return false
}

// stringEnd gives the index of the quote that ends the string begun at i.
func stringEnd(data []byte, i int) int {
	for i++; data[i] != '"'; i++ {
		if data[i] == '\\' {
			i++
		}
	}
	return i
}

// loneSurrogate finds an escape of half a surrogate pair, which stands for no character: decoders replace it in silence,
// each by something else. It gives -1 where there is none. data is valid JSON.
func loneSurrogate(data []byte) int {
	for i := nextEscape(data, 0); i >= 0; i = nextEscape(data, i) {
		switch unit := codeUnit(data[i:]); {
		case unit >= 0xDC00 && unit < 0xE000:
			return i
		case unit >= 0xD800 && unit < 0xDC00:
			if low := codeUnit(data[i+6:]); low < 0xDC00 || low >= 0xE000 {
				return i
			}
			i += 12
		default:
			i += 2 // the escape, or its first half: digits hold no backslash
		}
	}
	return -1
}

// replacement tells whether the encoder wrote the escape of U+FFFD: it does so for bytes that are no text, while the
// character itself goes out unescaped. data is valid JSON.
func replacement(data []byte) bool {
	for i := nextEscape(data, 0); i >= 0; i = nextEscape(data, i+2) {
		if codeUnit(data[i:]) == utf8.RuneError {
			return true
		}
	}
	return false
}

// nextEscape gives the index of the next backslash, from i on, -1 for none.
func nextEscape(data []byte, i int) int {
	next := bytes.IndexByte(data[i:], '\\')
	if next < 0 {
		return -1
	}
	return i + next
}

// codeUnit reads an escape \uXXXX, -1 for anything else.
func codeUnit(data []byte) int64 {
	if len(data) < 6 || data[0] != '\\' || data[1] != 'u' {
		return -1
	}
	unit, err := strconv.ParseInt(string(data[2:6]), 16, 32)
	if err != nil {
		return -1
	}
	return unit
}

// unquote gives the key that a literal stands for: "a" and "\u0061" are one key.
func unquote(literal []byte) []byte {
	if bytes.IndexByte(literal, '\\') < 0 {
		return literal[1 : len(literal)-1]
	}
	var s string
	if json.Unmarshal(literal, &s) != nil {
		return literal
	}
	return []byte(s)
}
