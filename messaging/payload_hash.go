package messaging

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// PayloadHash is "sha-256:" and lower hex, over the bytes that travelled.
type PayloadHash string

const hashPrefix = "sha-256:"

// HashPayload hashes the bytes that travel.
func HashPayload(payload []byte) PayloadHash {
	sum := sha256.Sum256(payload)
	var text [len(hashPrefix) + 2*sha256.Size]byte
	copy(text[:], hashPrefix)
	hex.Encode(text[len(hashPrefix):], sum[:])
	return PayloadHash(text[:])
}

// ParsePayloadHash accepts the one form that [HashPayload] makes.
func ParsePayloadHash(s string) (PayloadHash, error) {
	digits, ok := strings.CutPrefix(s, hashPrefix)
	if !ok || len(digits) != 2*sha256.Size || strings.Trim(digits, "0123456789abcdef") != "" {
		return "", invalid("payload hash", "is not sha-256: and 64 lower hex digits")
	}
	return PayloadHash(s), nil
}
