package outbox

import (
	"encoding/hex"
	"encoding/json"

	"github.com/google/uuid"
)

// positions are the brokers' positions of rows as one JSON object by message id, which the server searches by halves.
type positions struct{ text []byte }

// add a row's position, unless it is empty; more is how many rows may come, this one included.
func (p *positions) add(id uuid.UUID, position string, more int) {
	if position == "" {
		return
	}
	if p.text == nil {
		p.text = make([]byte, 0, (44+len(position))*more)
	}
	p.text = append(p.text, ',', '"')
	p.text = appendID(p.text, id)
	p.text = append(p.text, '"', ':')
	p.text = appendText(p.text, position)
}

// object is the whole of it.
func (p *positions) object() string {
	if len(p.text) == 0 {
		return "{}"
	}
	p.text[0] = '{'
	return string(append(p.text, '}'))
}

// appendID writes an id as PostgreSQL does.
func appendID(b []byte, id uuid.UUID) []byte {
	b = append(hex.AppendEncode(b, id[:4]), '-')
	b = append(hex.AppendEncode(b, id[4:6]), '-')
	b = append(hex.AppendEncode(b, id[6:8]), '-')
	b = append(hex.AppendEncode(b, id[8:10]), '-')
	return hex.AppendEncode(b, id[10:])
}

// appendText writes a text of JSON, the usual one without a detour.
func appendText(b []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			quoted, _ := json.Marshal(s) // a string never fails
			return append(b, quoted...)
		}
	}
	b = append(b, '"')
	b = append(b, s...)
	return append(b, '"')
}
