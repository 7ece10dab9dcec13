package outbox

import (
	"strings"
	"unicode/utf8"
)

// clean makes any text fit for a column: valid UTF-8 without NUL, at most limit characters.
func clean(s string, limit int) string {
	s = strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
	if utf8.RuneCountInString(s) <= limit {
		return s
	}
	return string([]rune(s)[:limit])
}
