package jsonschema

import (
	"encoding/json"
	"math"
	"strconv"
	"strings"
)

// maxDigits bounds the numbers that are compared. They are compared exactly, so that 1e1000000, nine bytes of a payload, would
// have a million digits, and a payload full of them would keep a consumer busy for hours.
const maxDigits = 1000

// unbounded tells whether a document holds a number of more digits than are compared.
func unbounded(v any) bool {
	switch v := v.(type) {
	case json.Number:
		return digits(string(v)) > maxDigits
	case []any:
		for _, item := range v {
			if unbounded(item) {
				return true
			}
		}
	case map[string]any:
		for _, item := range v {
			if unbounded(item) {
				return true
			}
		}
	}
	return false
}

// digits is how many a number has at most when it is written without an exponent.
func digits(number string) int {
	at := strings.IndexAny(number, "eE")
	if at < 0 {
		return len(number)
	}
	exponent, err := strconv.Atoi(strings.TrimPrefix(number[at+1:], "+"))
	if err != nil || exponent > math.MaxInt32 || exponent < -math.MaxInt32 {
		return math.MaxInt32
	}
	return at + max(exponent, -exponent)
}
