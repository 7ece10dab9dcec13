package brokertest

import (
	"crypto/rand"
	"encoding/hex"
	"strings"
	"testing"
)

// Name is a name that no other test has: prefix, the test's own name in lower case, and a random end. It fits every
// broker's rules for topics, queues, exchanges, virtual hosts and users.
func Name(t testing.TB, prefix string) string {
	suffix := make([]byte, 6)
	_, _ = rand.Read(suffix) // never fails
	readable := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9':
			return r
		case r >= 'A' && r <= 'Z':
			return r + 'a' - 'A'
		}
		return '-'
	}, strings.TrimPrefix(t.Name(), "Test"))
	return prefix + readable[:min(len(readable), 60)] + "-" + hex.EncodeToString(suffix)
}
