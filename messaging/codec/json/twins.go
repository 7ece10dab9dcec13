package json

import (
	"encoding/json"
	"reflect"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"
)

// The standard decoder finds a field whatever the case of its key, so that of {"cents":1,"Cents":100} the last one wins,
// and readers in other languages take the first. Two keys that differ in case alone are therefore one key given twice where
// a field could be meant by both; in a map they are two entries.

// fieldNames are the names of all fields that a type can be read into, in the form of its keys.
type fieldNames struct{ exact, folded map[string]bool }

var namesByType sync.Map // of reflect.Type to *fieldNames

// namesOf collects the names of a type and of all that it holds.
func namesOf(t reflect.Type) *fieldNames {
	if t == nil {
		return nil
	}
	if known, ok := namesByType.Load(t); ok {
		return known.(*fieldNames)
	}
	n := &fieldNames{exact: map[string]bool{}, folded: map[string]bool{}}
	n.collect(t, map[reflect.Type]bool{})
	if len(n.exact) == 0 {
		n = nil
	}
	namesByType.Store(t, n)
	return n
}

var (
	unmarshaler = reflect.TypeFor[json.Unmarshaler]()
	marshaler   = reflect.TypeFor[json.Marshaler]()
)

func (n *fieldNames) collect(t reflect.Type, seen map[reflect.Type]bool) {
	if seen[t] {
		return
	}
	seen[t] = true
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Array, reflect.Map:
		n.collect(t.Elem(), seen)
	case reflect.Struct:
		if p := reflect.PointerTo(t); p.Implements(unmarshaler) || p.Implements(marshaler) { // it has a form of its own
			return
		}
		for i := range t.NumField() {
			f := t.Field(i)
			tag := f.Tag.Get("json")
			name, _, _ := strings.Cut(tag, ",")
			if tag == "-" || !f.IsExported() && !f.Anonymous {
				continue
			}
			if name == "" {
				name = f.Name
			}
			n.exact[name], n.folded[string(appendFolded(nil, []byte(name)))] = true, true
			n.collect(f.Type, seen)
		}
	default:
	}
}

// near tells whether a key could mean a field that is spelled otherwise.
func (n *fieldNames) near(key []byte) bool {
	if n == nil || n.exact[string(key)] {
		return false
	}
	var room [64]byte
	return n.folded[string(appendFolded(room[:0], key))]
}

// appendFolded appends a text without its case, in the way of the standard decoder.
func appendFolded(dst, text []byte) []byte {
	for _, r := range string(text) {
		for { // the least of all that are the same without case
			next := unicode.SimpleFold(r)
			if next <= r {
				r = next
				break
			}
			r = next
		}
		dst = utf8.AppendRune(dst, r)
	}
	return dst
}
