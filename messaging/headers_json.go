package messaging

import (
	"strings"
	"unicode/utf8"
)

// plainHeaders reads the usual form of the outbox's headers column without the detour over a map: one object of texts
// without escapes, names in lower case and none twice. ok is false for everything else, valid or not. The texts share
// one copy of data.
func plainHeaders(data []byte) (kv []string, ok bool) {
	s := string(data)
	if !utf8.ValidString(s) {
		return nil, false
	}
	p := plainParser{rest: s}
	if !p.symbol('{') {
		return nil, false
	}
	kv = make([]string, 0, 2*min(strings.Count(s, ":"), MaxHeaders))
	for {
		name, okName := p.text()
		if !okName || !p.symbol(':') || strings.ToLower(name) != name {
			return nil, false
		}
		value, okValue := p.text()
		if !okValue || len(kv) == 2*MaxHeaders {
			return nil, false
		}
		if kv, ok = insertHeader(kv, name, value); !ok {
			return nil, false
		}
		if p.symbol(',') {
			continue
		}
		return kv, p.symbol('}') && p.end()
	}
}

// insertHeader keeps the order of names; ok is false where the name is there.
func insertHeader(kv []string, name, value string) (_ []string, ok bool) {
	kv = append(kv, name, value)
	for i := len(kv) - 2; i > 0; i -= 2 {
		switch strings.Compare(kv[i-2], kv[i]) {
		case 0:
			return kv, false
		case 1:
			kv[i-2], kv[i-1], kv[i], kv[i+1] = kv[i], kv[i+1], kv[i-2], kv[i-1]
		default:
			return kv, true
		}
	}
	return kv, true
}

// plainParser reads JSON from the front of rest.
type plainParser struct{ rest string }

func (p *plainParser) space() { p.rest = strings.TrimLeft(p.rest, " \t\r\n") }

func (p *plainParser) end() bool {
	p.space()
	return p.rest == ""
}

func (p *plainParser) symbol(c byte) bool {
	p.space()
	if p.rest == "" || p.rest[0] != c {
		return false
	}
	p.rest = p.rest[1:]
	return true
}

// text reads a string without escapes.
func (p *plainParser) text() (s string, ok bool) {
	if !p.symbol('"') {
		return "", false
	}
	for i := range len(p.rest) {
		switch c := p.rest[i]; {
		case c == '"':
			s, p.rest = p.rest[:i], p.rest[i+1:]
			return s, true
		case c == '\\' || c < ' ':
			return "", false
		}
	}
	return "", false
}
